import { Button, Group, Select, TextInput } from "@mantine/core";
import { IconPlus, IconSearch } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { useMay, useMe } from "../../me";
import { Empty } from "../../ui/Empty";
import { ErrorPanel } from "../../ui/errors";
import { Facts } from "../../ui/Facts";
import { Page } from "../../ui/Page";
import { useUrlText } from "../../ui/urlstate";
import { matches, needsCare, rentedGPUs, useHosts } from "./hosts";
import { HostTable } from "./HostTable";

/** The hosts of one's own account. */
export function Hosts() {
  const { t } = useTranslation();
  const me = useMe();
  const hosts = useHosts();
  const mayJoin = useMay("host:write");
  const [words, setWords] = useUrlText("q");
  const [state, setState] = useUrlText("state");
  const own = (hosts.data ?? []).filter((h) => h.account_id === me?.account.id);
  const rows = own.filter((h) => (!state || h.state === state) && matches(h, words));
  const join = mayJoin && (
    <Button component={Link} to="/hosts/join" leftSection={<IconPlus size={16} />}>
      {t("host.join")}
    </Button>
  );
  const loading = hosts.isPending || !me;
  return (
    <Page title={t("host.title")} about={t("host.about")} actions={join}>
      {hosts.error ? (
        <ErrorPanel error={hosts.error} retry={() => void hosts.refetch()} />
      ) : !loading && own.length === 0 ? (
        <Empty title={t("host.empty.title")} text={t("host.empty.text")}>
          {join}
        </Empty>
      ) : (
        <>
          <Facts
            loading={loading}
            facts={[
              { name: t("host.title"), value: own.length },
              { name: t("host.count.listed"), value: own.filter((h) => h.state === "listed").length },
              { name: t("host.count.care"), value: own.filter((h) => needsCare(h.state)).length },
              { name: t("host.count.gpus"), value: own.reduce((n, h) => n + h.total.gpus, 0) },
              { name: t("host.count.rented"), value: own.reduce((n, h) => n + rentedGPUs(h), 0) },
              { name: t("host.count.free"), value: own.reduce((n, h) => n + h.free.gpus, 0) },
            ]}
          />
          <Group gap="xs">
            <TextInput leftSection={<IconSearch size={16} />} placeholder={t("host.search")} aria-label={t("host.search")} value={words} onChange={(e) => setWords(e.currentTarget.value)} />
            <Select clearable placeholder={t("host.any_state")} aria-label={t("host.state")} value={state || null} onChange={(v) => setState(v ?? "")} data={[...new Set(own.map((h) => h.state))].map((s) => ({ value: s, label: t(`host.state.${s}`) }))} />
          </Group>
          <HostTable label={t("host.title")} rows={rows} loading={loading} />
        </>
      )}
    </Page>
  );
}
