import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { api, data, newKey, once, type Schema } from "../../../api/client";
import { confirm } from "../../../ui/confirm";
import { useErrorText } from "../../../ui/errors";

export type Verb = "stop" | "start" | "restart" | "end";

/** What can be asked of a lease in its state. */
export const verbsOf = (l: Schema["Lease"]): Verb[] => {
  switch (l.state) {
    case "running":
      return ["stop", "restart", "end"];
    case "starting":
    case "unreachable":
      return ["stop", "end"];
    case "stopped":
      return ["start", "end"];
    case "interrupted":
      return ["start", "stop", "end"];
    case "accepted":
    case "provisioning":
    case "stopping":
      return ["end"];
    default:
      return [];
  }
};

/** Stops, starts, restarts and ends leases, asking first where something is lost. */
export function useVerbs() {
  const { t } = useTranslation();
  const queries = useQueryClient();
  const errorText = useErrorText();
  const run = useMutation({
    mutationFn: ({ verb, id, key }: { verb: Verb; id: string; key: string }) => data(api.POST(`/v1/leases/{lease_id}/${verb}`, { params: { path: { lease_id: id }, header: once(key) } })),
    onSuccess: (lease) => queries.setQueryData(["lease", lease.id], lease),
    onError: (e) => {
      const { title, text } = errorText(e);
      notifications.show({ color: "red", title, message: text });
    },
    onSettled: (_d, _e, { id }) => {
      void queries.invalidateQueries({ queryKey: ["leases"] });
      void queries.invalidateQueries({ queryKey: ["lease", id] });
      void queries.invalidateQueries({ queryKey: ["bill", id] });
    },
  });
  const ask = async (verb: Verb, lease: Schema["Lease"]) => {
    const key = newKey();
    const name = lease.name || lease.id;
    if (verb === "end" && !(await confirm({ title: t("lease.end.title", { name }), text: t("lease.end.text"), action: t("lease.end"), danger: true, type: name }))) return;
    if (verb === "restart" && !(await confirm({ title: t("lease.restart.title", { name }), text: t("lease.restart.text"), action: t("lease.restart") }))) return;
    if (verb === "stop" && !(await confirm({ title: t("lease.stop.title", { name }), text: t("lease.stop.text"), action: t("lease.stop") }))) return;
    run.mutate({ verb, id: lease.id, key });
  };
  return { ask, pending: run.isPending ? run.variables : undefined };
}
