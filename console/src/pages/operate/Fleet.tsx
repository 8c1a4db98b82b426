import { Button, Group, Select, TextInput } from "@mantine/core";
import { IconSearch } from "@tabler/icons-react";
import { useTranslation } from "react-i18next";
import { api } from "../../api/client";
import { useAct } from "../../ui/act";
import { confirm } from "../../ui/confirm";
import { Empty } from "../../ui/Empty";
import { ErrorPanel } from "../../ui/errors";
import { Page } from "../../ui/Page";
import { useUrlText } from "../../ui/urlstate";
import { HostTable } from "../host/HostTable";
import { matches, useHosts } from "../host/hosts";

/** All hosts of the cloud, whosever they are. */
export function Fleet() {
  const { t } = useTranslation();
  const hosts = useHosts();
  const [words, setWords] = useUrlText("q");
  const [state, setState] = useUrlText("state");
  const [region, setRegion] = useUrlText("region");
  const all = hosts.data ?? [];
  const silent = all.filter((h) => h.state === "awaited" || h.state === "offline");
  const lost = useAct(() => api.POST("/v1/operator/fleet/confirm-loss"), { keys: [["hosts"]], done: t("done") });
  const giveUp = async () => {
    if (await confirm({ title: t("op.loss.title"), text: t("op.loss.text", { count: silent.length }), action: t("op.loss"), danger: true, type: t("op.loss.word") })) lost.mutate(undefined);
  };
  const rows = all.filter((h) => (!state || h.state === state) && (!region || h.region === region) && matches(h, words));
  const choices = (of: string[]) => [...new Set(of)].sort();
  return (
    <Page
      title={t("op.fleet.title")}
      about={t("op.fleet.about")}
      actions={
        silent.length > 0 && (
          <Button color="red" variant="light" loading={lost.isPending} onClick={() => void giveUp()}>
            {t("op.loss")}
          </Button>
        )
      }
    >
      {hosts.error ? (
        <ErrorPanel error={hosts.error} retry={() => void hosts.refetch()} />
      ) : !hosts.isPending && all.length === 0 ? (
        <Empty title={t("op.map.none")} text={t("host.empty.text")} />
      ) : (
        <>
          <Group gap="xs">
            <TextInput leftSection={<IconSearch size={16} />} placeholder={t("host.search")} aria-label={t("host.search")} value={words} onChange={(e) => setWords(e.currentTarget.value)} />
            <Select clearable placeholder={t("host.any_state")} aria-label={t("host.state")} value={state || null} onChange={(v) => setState(v ?? "")} data={choices(all.map((h) => h.state)).map((s) => ({ value: s, label: t(`host.state.${s}`) }))} />
            <Select clearable placeholder={t("op.fleet.any_region")} aria-label={t("host.region")} value={region || null} onChange={(v) => setRegion(v ?? "")} data={choices(all.map((h) => h.region))} />
          </Group>
          <HostTable label={t("op.fleet.title")} rows={rows} loading={hosts.isPending} owners />
        </>
      )}
    </Page>
  );
}
