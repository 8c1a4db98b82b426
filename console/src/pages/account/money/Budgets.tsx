import { Alert, Badge, Button, Group, List, Paper, Progress, SimpleGrid, Skeleton, Stack, Text, Title } from "@mantine/core";
import { IconCheck, IconClock } from "@tabler/icons-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, data, type Schema } from "../../../api/client";
import { useMay } from "../../../me";
import { useAct } from "../../../ui/act";
import { confirm } from "../../../ui/confirm";
import { Empty } from "../../../ui/Empty";
import { ErrorPanel } from "../../../ui/errors";
import { Money, Time } from "../../../ui/format";
import { usePages } from "../../../ui/pages";
import { BudgetForm } from "./BudgetForm";
import { useUsers } from "./users";

type Budget = Schema["Budget"];

/** How much of an amount another is, in per cent; for the length of a bar, and not for money. */
const share = (part: string, whole: string) => (Number(whole) > 0 ? (100 * Number(part)) / Number(whole) : 0);

/** What may be spent in a period, how it stands, and what happens where it is reached. */
export function Budgets() {
  const { t } = useTranslation();
  const may = useMay("billing:write");
  const [editing, setEditing] = useState<Budget | "new">();
  const budgets = usePages<Budget>(["budgets"], (cursor, signal) => data(api.GET("/v1/budgets", { params: { query: { cursor, limit: 50 } }, signal })), { refetchInterval: 15_000 });
  if (budgets.error) return <ErrorPanel error={budgets.error} retry={budgets.retry} />;
  const make = may && <Button onClick={() => setEditing("new")}>{t("budget.make")}</Button>;
  return (
    <Stack>
      {budgets.first ? (
        <Skeleton h={240} role="status" aria-label={t("loading")} />
      ) : budgets.rows.length === 0 ? (
        <Empty title={t("budget.empty.title")} text={t("budget.empty.text")}>
          {make}
        </Empty>
      ) : (
        <>
          <Group justify="space-between">
            <Text size="sm" c="dimmed">
              {t("budget.about")}
            </Text>
            {make}
          </Group>
          <SimpleGrid cols={{ base: 1, md: 2, xl: 3 }}>
            {budgets.rows.map((b) => (
              <Card key={b.id} budget={b} edit={may ? () => setEditing(b) : undefined} />
            ))}
          </SimpleGrid>
          {budgets.more && (
            <Button variant="default" onClick={budgets.more}>
              {t("budget.more")}
            </Button>
          )}
        </>
      )}
      {editing && <BudgetForm budget={editing === "new" ? undefined : editing} close={() => setEditing(undefined)} />}
    </Stack>
  );
}

function Card({ budget: b, edit }: { budget: Budget; edit?: () => void }) {
  const { t, i18n } = useTranslation();
  const users = useUsers();
  const remove = useAct((id: string) => api.DELETE("/v1/budgets/{budget_id}", { params: { path: { budget_id: id } } }), { keys: [["budgets"]] });
  const spent = share(b.spent, b.amount);
  const ahead = Math.max(0, share(b.forecast, b.amount) - spent);
  const percent = new Intl.NumberFormat(i18n.language, { style: "percent", maximumFractionDigits: 1 });
  const color = spent >= 100 ? "red" : spent + ahead >= 100 ? "orange" : "teal";
  return (
    <Paper withBorder p="md" component="article" aria-labelledby={b.id}>
      <Stack gap="sm">
        <Group justify="space-between" wrap="nowrap" align="flex-start">
          <div>
            <Title order={2} size="h4" id={b.id} style={{ overflowWrap: "anywhere" }}>
              {b.name}
            </Title>
            <Text size="sm" c="dimmed" style={{ overflowWrap: "anywhere" }}>
              {b.label ? t("budget.scope.label", { label: b.label }) : b.user_id ? t("budget.scope.user", { user: users.find((u) => u.id === b.user_id)?.email ?? b.user_id }) : t("budget.scope.all")}
            </Text>
          </div>
          <Badge variant="light" tt="none" style={{ flexShrink: 0 }} color={b.action === "tell" ? "gray" : "orange"}>
            {t(`budget.action.${b.action}`)}
          </Badge>
        </Group>
        {b.blocks && (
          <Alert color="red" title={t(b.action === "stop" ? "budget.stops" : "budget.refuses")}>
            {t("budget.blocks")}
          </Alert>
        )}
        <Text fz="lg" fw={600}>
          <Money amount={b.spent} currency={b.currency} />{" "}
          <Text span size="sm" c="dimmed">
            {t("budget.of")} <Money amount={b.amount} currency={b.currency} /> · {percent.format(spent / 100)}
          </Text>
        </Text>
        <Progress.Root size="lg">
          <Progress.Section value={Math.min(100, spent)} color={color} aria-label={t("budget.spent")} />
          <Progress.Section value={Math.min(100 - Math.min(100, spent), ahead)} color={`var(--mantine-color-${color}-light)`} aria-label={t("budget.forecast")} />
        </Progress.Root>
        <SimpleGrid cols={2} spacing="xs">
          <Fact name={t("budget.forecast")}>
            <Money amount={b.forecast} currency={b.currency} />
          </Fact>
          <Fact name={t("balance.burn")}>
            <Money amount={b.burn_per_hour} currency={b.currency} per="hour" />
          </Fact>
          <Fact name={t("balance.unbilled")}>
            <Money amount={b.unposted} currency={b.currency} />
          </Fact>
          {Number(b.simulated) !== 0 && (
            <Fact name={t("budget.simulated")}>
              <Money amount={b.simulated} currency={b.currency} />
            </Fact>
          )}
          <Fact name={t(b.fixed ? "budget.period" : "budget.month")}>
            <Time at={b.from} /> – <Time at={b.to} />
          </Fact>
        </SimpleGrid>
        <List size="sm" spacing={2} aria-label={t("budget.alerts")}>
          {(b.thresholds ?? []).map((x) => (
            <List.Item key={`${x.share_basis_points}${x.forecast}`} icon={x.told_at ? <IconCheck size={14} aria-hidden /> : <IconClock size={14} aria-hidden />}>
              {t(x.forecast ? "budget.at.forecast" : "budget.at.spent", { share: percent.format(x.share_basis_points / 10_000) })}
              {x.told_at && (
                <Text span size="xs" c="dimmed">
                  {" · "}
                  {t("budget.told")} <Time at={x.told_at} relative />
                </Text>
              )}
            </List.Item>
          ))}
        </List>
        {edit && (
          <Group gap="xs">
            <Button size="xs" variant="default" onClick={edit} aria-label={t("budget.change.title", { name: b.name })}>
              {t("bid.change")}
            </Button>
            <Button
              size="xs"
              variant="subtle"
              color="red"
              loading={remove.isPending}
              aria-label={t("budget.remove.title", { name: b.name })}
              onClick={async () => (await confirm({ title: t("budget.remove.title", { name: b.name }), text: t("budget.remove.text"), action: t("keys.remove"), danger: true })) && remove.mutate(b.id)}
            >
              {t("keys.remove")}
            </Button>
          </Group>
        )}
      </Stack>
    </Paper>
  );
}

function Fact({ name, children }: { name: string; children: React.ReactNode }) {
  return (
    <div>
      <Text size="xs" c="dimmed">
        {name}
      </Text>
      <Text size="sm" component="div" style={{ overflowWrap: "anywhere" }}>
        {children}
      </Text>
    </div>
  );
}
