import { Button, Menu } from "@mantine/core";
import { IconDots } from "@tabler/icons-react";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, data, once } from "../../api/client";
import { useMay, useMe } from "../../me";
import { useAct } from "../../ui/act";
import { confirm } from "../../ui/confirm";
import { moment, wall } from "../../ui/Dates";
import { FormDialog } from "../../ui/FormDialog";
import type { Host } from "./hosts";

type Verb = "list" | "unlist" | "drain" | "undrain";

/** What can be done with a host. */
export function HostActions({ host: h }: { host: Host }) {
  const { t } = useTranslation();
  const zone = useMe()?.account.time_zone ?? "UTC";
  const mayWrite = useMay("host:write");
  const mayOperate = useMay("operate");
  const navigate = useNavigate();
  const [announcing, setAnnouncing] = useState(false);
  const path = { params: { path: { host_id: h.id } } };
  const keys = [["hosts"], ["offers"]];
  const verb = useAct(
    (v: Verb) =>
      data(
        v === "list"
          ? api.POST("/v1/hosts/{host_id}/list", path)
          : v === "unlist"
            ? api.POST("/v1/hosts/{host_id}/unlist", path)
            : v === "drain"
              ? api.POST("/v1/hosts/{host_id}/drain", path)
              : api.POST("/v1/hosts/{host_id}/undrain", path),
      ),
    { keys, done: t("done") },
  );
  const back = useAct(() => data(api.DELETE("/v1/hosts/{host_id}/maintenance", path)), { keys, done: t("done") });
  const gone = { keys, done: t("done"), after: () => void navigate({ to: "/hosts" }) };
  const remove = useAct(() => api.DELETE("/v1/hosts/{host_id}", path), gone);
  const abandon = useAct((_: null, key: string) => api.POST("/v1/operator/hosts/{host_id}/abandon", { params: { ...path.params, header: once(key) } }), { keys, done: t("done") });
  if (!mayWrite && !mayOperate) return null;

  const draining = h.state === "draining";
  const sure = async (what: "drain" | "remove" | "abandon", then: () => void) => {
    const lost = what !== "drain";
    if (await confirm({ title: t(`host.${what}.title`, { name: h.name }), text: t(`host.${what}.text`), action: t(`host.${what}`), danger: lost, type: lost ? h.name : undefined })) then();
  };
  const busy = verb.isPending || back.isPending || remove.isPending || abandon.isPending;
  return (
    <>
      {mayWrite && (
        <>
          <Button loading={busy} variant={h.listing.listed ? "default" : "filled"} onClick={() => verb.mutate(h.listing.listed ? "unlist" : "list")}>
            {t(h.listing.listed ? "host.unlist" : "host.list")}
          </Button>
          <Button variant="default" onClick={() => setAnnouncing(true)}>
            {t("host.maintenance")}
          </Button>
        </>
      )}
      <Menu position="bottom-end" withinPortal>
        <Menu.Target>
          <Button variant="default" px="xs" aria-label={t("host.more")}>
            <IconDots size={16} />
          </Button>
        </Menu.Target>
        <Menu.Dropdown>
          {mayWrite && (
            <>
              {draining ? <Menu.Item onClick={() => verb.mutate("undrain")}>{t("host.undrain")}</Menu.Item> : <Menu.Item onClick={() => void sure("drain", () => verb.mutate("drain"))}>{t("host.drain")}</Menu.Item>}
              {h.maintenance && <Menu.Item onClick={() => back.mutate(undefined)}>{t("host.maintenance.cancel")}</Menu.Item>}
              <Menu.Item color="red" onClick={() => void sure("remove", () => remove.mutate(undefined))}>
                {t("host.remove")}
              </Menu.Item>
            </>
          )}
          {mayOperate && (
            <Menu.Item color="red" onClick={() => void sure("abandon", () => abandon.mutate(null))}>
              {t("host.abandon")}
            </Menu.Item>
          )}
        </Menu.Dropdown>
      </Menu>
      <FormDialog
        opened={announcing}
        onClose={() => setAnnouncing(false)}
        title={t("host.maintenance")}
        about={t("host.maintenance.about")}
        action={t("host.maintenance.announce")}
        done={t("done")}
        keys={keys}
        fields={[
          { name: "from", label: t("host.maintenance.from"), help: t("zone.shown", { zone }), kind: "moment", initial: h.maintenance ? wall(h.maintenance.from, zone) : null },
          { name: "until", label: t("host.maintenance.until"), kind: "moment", required: true, initial: h.maintenance ? wall(h.maintenance.until, zone) : null },
        ]}
        run={(v) => data(api.PUT("/v1/hosts/{host_id}/maintenance", { ...path, body: { from: v.from ? moment(v.from, zone) : undefined, until: moment(v.until, zone) } }))}
      />
    </>
  );
}
