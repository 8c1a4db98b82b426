import { ActionIcon, Group, SegmentedControl, Text, Tooltip } from "@mantine/core";
import { IconPlayerPlay, IconPlayerStop } from "@tabler/icons-react";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { api, data, type Schema } from "../../api/client";
import { useMay } from "../../me";
import { ButtonLink } from "../../ui/ButtonLink";
import { type Columns } from "../../ui/DataTable";
import { Empty } from "../../ui/Empty";
import { Money, Time } from "../../ui/format";
import { Page } from "../../ui/Page";
import { usePages } from "../../ui/pages";
import { Simulated } from "../../ui/simulated";
import { PagedTable } from "../../ui/PagedTable";
import { useLeaseChanges } from "./lease/live";
import { State } from "./lease/State";
import { useVerbs, verbsOf } from "./lease/useVerbs";

type Lease = Schema["Lease"];

/** What the account rents, live. */
export function Leases() {
  const { t } = useTranslation();
  const { over } = useSearch({ strict: false }) as { over?: boolean };
  const navigate = useNavigate();
  const may = useMay("lease:write");
  const live = useLeaseChanges();
  const verbs = useVerbs();
  const leases = usePages<Lease>(["leases", over ?? false], (cursor, signal) => data(api.GET("/v1/leases", { params: { query: { cursor, limit: 200, ...(!over && { live: true }) } }, signal })), { refetchInterval: live ? 30_000 : 5_000 });
  const columns: Columns<Lease> = [
    { id: "name", header: t("lease.name"), accessorFn: (l) => l.name, cell: ({ row: { original: l } }) => <Text fw={600} maw={260} truncate>{l.name || l.id}</Text> },
    { id: "state", header: t("lease.state"), accessorFn: (l) => l.state, cell: ({ row }) => <State state={row.original.state} /> },
    {
      id: "gpu",
      header: t("market.gpu"),
      accessorFn: (l) => l.gpu_model,
      cell: ({ row: { original: l } }) => (
        <Group gap={6} wrap="nowrap">
          <span style={{ whiteSpace: "nowrap" }}>{l.gpu_model ? `${l.gpu_count} × ${l.gpu_model}` : t("market.cpu_only")}</span>
          <Simulated simulated={l.simulated} />
        </Group>
      ),
    },
    { id: "plan", header: t("market.plan"), accessorFn: (l) => l.plan, cell: ({ row }) => <span style={{ whiteSpace: "nowrap" }}>{t(`plan.${row.original.plan}`)}</span> },
    { id: "price", header: t("market.price"), cell: ({ row: { original: l } }) => <Money amount={l.per_hour} currency={l.currency} per="hour" /> },
    { id: "usage", header: t("lease.gpu_use"), cell: ({ row: { original: l } }) => (l.state === "running" && l.usage ? <span className="figure">{`${l.usage.gpu_percent} %`}</span> : "–") },
    { id: "what", header: t("lease.runs"), cell: ({ row: { original: l } }) => <Text size="sm" maw={200} truncate>{l.template ?? l.image}</Text> },
    { id: "created", header: t("lease.since"), accessorFn: (l) => l.created_at, cell: ({ row }) => <span style={{ whiteSpace: "nowrap" }}><Time at={row.original.created_at} relative /></span> },
    {
      id: "do",
      header: t("market.actions"),
      cell: ({ row: { original: l } }) => {
        const verb = verbsOf(l).find((v) => v === "start" || v === "stop");
        if (!verb || !may) return null;
        const label = t("lease.do_to", { what: t(`lease.${verb}`), name: l.name || l.id });
        return (
          <Tooltip label={t(`lease.${verb}`)}>
            <ActionIcon variant="default" aria-label={label} loading={verbs.pending?.id === l.id} onClick={() => void verbs.ask(verb, l)}>
              {verb === "start" ? <IconPlayerPlay size={16} /> : <IconPlayerStop size={16} />}
            </ActionIcon>
          </Tooltip>
        );
      },
    },
  ];
  return (
    <Page
      title={t("leases.title")}
      about={t("leases.about")}
      actions={
        <SegmentedControl aria-label={t("leases.which")} value={over ? "all" : "live"} onChange={(v) => void navigate({ to: "/leases", search: v === "all" ? { over: true } : {} })} data={[{ value: "live", label: t("leases.live") }, { value: "all", label: t("leases.all") }]} />
      }
    >
      <PagedTable
        list={leases}
        label={t("leases.title")}
        columns={columns}
        rowKey={(l) => l.id}
        onOpen={(l) => void navigate({ to: "/leases/$leaseId", params: { leaseId: l.id } })}
        empty={
          <Empty title={t("leases.empty.title")} text={t("leases.empty.text")}>
            <Group>
              <ButtonLink to="/templates">{t("leases.from_template")}</ButtonLink>
              <ButtonLink to="/market" variant="default">
                {t("nav.market")}
              </ButtonLink>
            </Group>
          </Empty>
        }
      />
    </Page>
  );
}
