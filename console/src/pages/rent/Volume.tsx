import { Alert, Badge, Button, Group, Skeleton, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { api, data, once, type Schema } from "../../api/client";
import { useMay } from "../../me";
import { useAct } from "../../ui/act";
import { ButtonLink } from "../../ui/ButtonLink";
import { confirm } from "../../ui/confirm";
import { Copy } from "../../ui/Copy";
import { DataTable, type Columns } from "../../ui/DataTable";
import { ErrorPanel } from "../../ui/errors";
import { Facts } from "../../ui/Facts";
import { FormButton } from "../../ui/FormDialog";
import { Money, Time } from "../../ui/format";
import { Page } from "../../ui/Page";
import { Section } from "../../ui/Section";
import { Simulated } from "../../ui/simulated";
import { TextLink } from "../../ui/TextLink";
import { over } from "./volumes/search";
import { VolumeState } from "./volumes/State";

type One = Schema["Volume"];
type Attachment = Schema["VolumeAttachment"];

const keys = [["volume"], ["volumes"]];

/** One volume: where it is, what it costs, which leases have it, and how it goes. */
export function Volume() {
  const { t } = useTranslation();
  const { volumeId: id } = useParams({ strict: false }) as { volumeId: string };
  const may = useMay("lease:write");
  const found = useQuery({
    queryKey: ["volume", id],
    queryFn: ({ signal }) => data(api.GET("/v1/volumes/{volume_id}", { params: { path: { volume_id: id } }, signal })),
    refetchInterval: (q) => (q.state.data && over(q.state.data.state) ? 60_000 : q.state.data?.state === "available" ? 5_000 : 1_500),
    retry: false,
  });
  const v = found.data;
  if (!v) {
    return (
      <Page title={t("volume.one")}>
        {found.error ? (
          <>
            <ErrorPanel error={found.error} retry={() => void found.refetch()} />
            <Group>
              <ButtonLink to="/volumes" variant="default">
                {t("nav.volumes")}
              </ButtonLink>
            </Group>
          </>
        ) : (
          <Skeleton h={320} role="status" aria-label={t("loading")} />
        )}
      </Page>
    );
  }
  return (
    <Page
      title={v.name}
      about={`${v.size_gib} GiB · ${v.region} / ${v.zone}`}
      actions={
        <>
          <Simulated simulated={v.simulated} />
          <VolumeState state={v.state} />
          {may && (v.state === "available" || v.state === "creating") && <Delete volume={v} />}
        </>
      }
    >
      {(v.state !== "available" || v.message) && (
        <Alert variant="light" color={v.state === "lost" ? "red" : v.state === "available" ? "orange" : "blue"} title={t(`volume.state.${v.state}`)}>
          <Text size="sm">{t(`volume.means.${v.state}`)}</Text>
          {v.message && (
            <Text size="sm" mt={4} style={{ overflowWrap: "anywhere" }}>
              {v.message}
            </Text>
          )}
        </Alert>
      )}
      <Facts
        facts={[
          { long: true, name: t("volume.per_gib"), value: <Money amount={v.price_per_gib_month} currency={v.currency} per="month" /> },
          { long: true, name: t("volume.whole"), value: <Money amount={v.per_month} currency={v.currency} per="month" /> },
          { long: true, name: t("volume.charged_since"), value: <Time at={v.ready_at} /> },
          { long: true, name: t("op.created"), value: <Time at={v.created_at} /> },
          { long: true, name: t("volume.id"), value: <Copy text={v.id} /> },
          { long: true, name: t("cluster.host"), value: <Copy text={v.host_id} /> },
        ]}
      />
      <Text size="sm" c="dimmed">
        {t("volume.costs")}
      </Text>
      <Leases volume={v} may={may} />
      {v.state === "available" && (
        <Section title={t("volume.next")} about={t("volume.next.about")}>
          <Copy text={`suanli rent --volume ${v.name}:/data`} />
          <Copy text={`suanli rent --volume ${v.name}:/data:ro`} />
        </Section>
      )}
    </Page>
  );
}

/** The leases that have it, and how one gets it or lets go of it. */
function Leases({ volume: v, may }: { volume: One; may: boolean }) {
  const { t } = useTranslation();
  const all = useQuery({ queryKey: ["leases", "hosts"], queryFn: ({ signal }) => data(api.GET("/v1/leases", { params: { query: { limit: 200, live: true } }, signal })), refetchInterval: 10_000 });
  const leases = new Map((all.data?.items ?? []).map((l) => [l.id, l]));
  const has = new Set(v.attachments.map((a) => a.lease_id));
  const stopped = [...leases.values()].filter((l) => l.host_id === v.host_id && l.state === "stopped" && !has.has(l.id));
  const detach = useAct((lease: string, key) => data(api.POST("/v1/volumes/{volume_id}/detach", { params: { path: { volume_id: v.id }, header: once(key) }, body: { lease_id: lease } })), { keys, done: t("volume.detached") });
  const columns: Columns<Attachment> = [
    { id: "lease", header: t("cluster.lease"), cell: ({ row: { original: a } }) => <TextLink to="/leases/$leaseId" params={{ leaseId: a.lease_id }} size="sm">{leases.get(a.lease_id)?.name || a.lease_id}</TextLink> },
    { id: "path", header: t("volume.path"), cell: ({ row }) => <Copy text={row.original.path} /> },
    { id: "mode", header: t("volume.mode"), cell: ({ row }) => <Badge variant="light" tt="none" color={row.original.read_only ? "gray" : "blue"}>{t(row.original.read_only ? "volume.reads" : "volume.writes")}</Badge> },
    { id: "since", header: t("lease.since"), accessorFn: (a) => a.attached_at, cell: ({ row }) => <Time at={row.original.attached_at} /> },
    {
      id: "actions",
      header: t("column.actions"),
      cell: ({ row: { original: a } }) =>
        may && (
          <Button size="compact-sm" variant="default" aria-label={t("volume.detach_from", { name: leases.get(a.lease_id)?.name || a.lease_id })} loading={detach.isPending && detach.variables === a.lease_id} onClick={() => detach.mutate(a.lease_id)}>
            {t("volume.detach")}
          </Button>
        ),
    },
  ];
  const attach = may && v.state === "available" && stopped.length > 0 && (
    <FormButton
      title={t("volume.attach")}
      about={t("volume.attach.about")}
      action={t("volume.attach")}
      done={t("done")}
      keys={keys}
      fields={[
        { name: "lease_id", label: t("cluster.lease"), kind: "choice", required: true, initial: stopped[0]!.id, choices: stopped.map((l) => ({ value: l.id, label: l.name || l.id })) },
        { name: "path", label: t("volume.path"), help: t("volume.path.help"), required: true, initial: "/volume" },
        { name: "read_only", label: t("volume.read_only"), kind: "check" },
      ]}
      run={(x, key) => data(api.POST("/v1/volumes/{volume_id}/attach", { params: { path: { volume_id: v.id }, header: once(key) }, body: { lease_id: x.lease_id, path: x.path.trim(), ...(x.read_only && { read_only: true }) } }))}
    />
  );
  return (
    <Section title={t("volume.used")} about={t("volume.used.about")} actions={attach}>
      {v.attachments.length === 0 ? (
        <Stack gap={4}>
          <Text size="sm">{t("volume.unused.text")}</Text>
          {may && v.state === "available" && stopped.length === 0 && (
            <Text size="sm" c="dimmed">
              {t("volume.no_stopped")}
            </Text>
          )}
        </Stack>
      ) : (
        <DataTable label={t("volume.used")} rows={v.attachments} columns={columns} rowKey={(a) => a.lease_id} height={320} />
      )}
    </Section>
  );
}

/** Removes it with all that is in it, once its name was typed; the server refuses while a lease has it. */
function Delete({ volume: v }: { volume: One }) {
  const { t } = useTranslation();
  const remove = useAct((id: string, key) => data(api.DELETE("/v1/volumes/{volume_id}", { params: { path: { volume_id: id }, header: once(key) } })), { keys: [...keys, ["balance"]], done: t("volume.goes") });
  const ask = async () => {
    if (await confirm({ title: t("volume.delete.title", { name: v.name }), text: t("volume.delete.text", { size: v.size_gib }), action: t("volume.delete"), danger: true, type: v.name })) remove.mutate(v.id);
  };
  return (
    <Button size="xs" variant="light" color="red" disabled={v.attachments.length > 0} title={v.attachments.length > 0 ? t("volume.delete.in_use") : undefined} loading={remove.isPending} onClick={() => void ask()}>
      {t("volume.delete")}
    </Button>
  );
}
