import { Group, Paper, SimpleGrid, Stack, Text, Title } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { api, data, type Schema } from "../../api/client";
import { useMay, useMe } from "../../me";
import { moment, wall } from "../../ui/Dates";
import { Facts } from "../../ui/Facts";
import { FormButton, type Field, type Values } from "../../ui/FormDialog";
import { Money, Time } from "../../ui/format";
import { Section } from "../../ui/Section";
import { Comparison } from "./Comparison";
import { gpusOf, type Host } from "./hosts";

/** What a host costs, against the market, and its terms. */
export function HostPrices({ host: h }: { host: Host }) {
  const { t } = useTranslation();
  const me = useMe();
  const may = useMay("host:write");
  const currency = me?.account.currency ?? "USD";
  const models = [...new Set(gpusOf(h).map((g) => g.model))].filter(Boolean);
  const l = h.listing;
  return (
    <Stack>
      <Section title={t("price.compared")} about={t("price.compared_about")} actions={may && <Prices host={h} models={models} currency={currency} />}>
        <SimpleGrid cols={{ base: 1, lg: 2 }}>
          {models.map((m) => (
            <Paper key={m} withBorder p="md">
              <Title order={3} size="h5" mb="xs">
                {m}
              </Title>
              <Comparison host={h} model={m} fixed={l.per_gpu_hour?.[m]} floor={l.spot_floor_per_gpu_hour?.[m]} currency={currency} />
            </Paper>
          ))}
        </SimpleGrid>
      </Section>
      <Section title={t("price.terms")} about={t("price.terms_about")} actions={may && <Group gap="xs"><Terms host={h} currency={currency} /><FloorRule host={h} currency={currency} /></Group>}>
        <Facts
          facts={[
            { long: true, name: t("price.storage"), value: l.storage_per_gib_month ? <Money amount={l.storage_per_gib_month} currency={currency} /> : t("price.default") },
            { long: true, name: t("price.egress"), value: l.egress_per_gb ? <Money amount={l.egress_per_gb} currency={currency} /> : t("price.default") },
            { long: true, name: t("price.cpu"), value: l.per_cpu_hour ? <Money amount={l.per_cpu_hour} currency={currency} per="hour" /> : t("price.default") },
            { long: true, name: t("price.min_gpus"), value: l.min_gpus || 1 },
            { long: true, name: t("price.ends"), value: l.ends_at ? <Time at={l.ends_at} /> : t("price.no_end") },
            { long: true, name: t("price.rule"), value: <Rule rule={l.spot_floor_rule} currency={currency} /> },
          ]}
        />
      </Section>
    </Stack>
  );
}

function Rule({ rule, currency }: { rule: Host["listing"]["spot_floor_rule"]; currency: string }) {
  const { t } = useTranslation();
  if (!rule) return t("price.rule.default");
  return (
    <Text size="sm" component="span">
      {rule.of_on_demand_basis_points ? t("price.rule.on_demand", { percent: rule.of_on_demand_basis_points / 100 }) : ""}
      {rule.of_last_basis_points ? ` ${t("price.rule.last", { percent: rule.of_last_basis_points / 100 })}` : ""}
      {rule.min_per_gpu_hour && (
        <>
          {" ≥ "}
          <Money amount={rule.min_per_gpu_hour} currency={currency} />
        </>
      )}
      {rule.max_per_gpu_hour && rule.max_per_gpu_hour !== "0" && (
        <>
          {" ≤ "}
          <Money amount={rule.max_per_gpu_hour} currency={currency} />
        </>
      )}
    </Text>
  );
}

const patch = (h: Host, body: Schema["UpdateListing"]) =>
  data(api.PATCH("/v1/hosts/{host_id}/listing", { params: { path: { host_id: h.id } }, body }));
const keys = [["hosts"], ["offers"]];

function Prices({ host: h, models, currency }: { host: Host; models: string[]; currency: string }) {
  const { t } = useTranslation();
  const unit = `${currency} ${t("unit.per_hour")}`;
  const fields: Field[] = models.flatMap((m, i) => [
    { name: `price${i}`, label: t("price.of", { model: m }), kind: "money" as const, unit, initial: h.listing.per_gpu_hour?.[m] ?? "" },
    { name: `floor${i}`, label: t("price.floor_of", { model: m }), kind: "money" as const, unit, initial: h.listing.spot_floor_per_gpu_hour?.[m] ?? "" },
  ]);
  if (models.length === 0) fields.push({ name: "cpu", label: t("price.cpu"), kind: "money", unit, initial: h.listing.per_cpu_hour ?? "" });
  const given = (v: Values, of: string) => Object.fromEntries(models.map((m, i) => [m, String(v[`${of}${i}`]).trim()]).filter(([, amount]) => amount));
  return (
    <FormButton
      title={t("price.set")}
      about={t("price.set_about")}
      action={t("action.save")}
      variant="filled"
      fields={fields}
      keys={keys}
      done={t("done")}
      run={(v) => {
        const prices = given(v, "price");
        const floors = given(v, "floor");
        return patch(h, {
          per_gpu_hour: Object.keys(prices).length ? prices : undefined,
          spot_floor_per_gpu_hour: Object.keys(floors).length ? floors : undefined,
          per_cpu_hour: v.cpu || undefined,
        });
      }}
    />
  );
}

function Terms({ host: h, currency }: { host: Host; currency: string }) {
  const { t } = useTranslation();
  const zone = useMe()?.account.time_zone ?? "UTC";
  const l = h.listing;
  return (
    <FormButton
      title={t("price.terms_set")}
      about={t("price.set_about")}
      action={t("action.save")}
      keys={keys}
      done={t("done")}
      fields={[
        { name: "storage_per_gib_month", label: t("price.storage"), kind: "money", unit: currency, initial: l.storage_per_gib_month ?? "" },
        { name: "egress_per_gb", label: t("price.egress"), kind: "money", unit: currency, initial: l.egress_per_gb ?? "" },
        { name: "min_gpus", label: t("price.min_gpus"), kind: "number", min: 0, max: 64, initial: l.min_gpus ?? "" },
        { name: "ends_at", label: t("price.ends"), help: `${t("price.ends_about")} ${t("zone.shown", { zone })}`, kind: "moment", initial: l.ends_at ? wall(l.ends_at, zone) : null },
      ]}
      run={(v) =>
        patch(h, {
          storage_per_gib_month: v.storage_per_gib_month || undefined,
          egress_per_gb: v.egress_per_gb || undefined,
          min_gpus: v.min_gpus === "" ? undefined : v.min_gpus,
          ends_at: v.ends_at ? moment(v.ends_at, zone) : undefined,
        })
      }
    />
  );
}

function FloorRule({ host: h, currency }: { host: Host; currency: string }) {
  const { t } = useTranslation();
  const r = h.listing.spot_floor_rule;
  const unit = `${currency} ${t("unit.per_hour")}`;
  return (
    <FormButton
      title={t("price.rule_set")}
      about={t("price.rule_about")}
      action={t("action.save")}
      keys={keys}
      done={t("done")}
      fields={[
        { name: "demand", label: t("price.rule.of_on_demand"), kind: "number", unit: "%", min: 0, max: 1000, initial: (r?.of_on_demand_basis_points ?? 0) / 100 },
        { name: "last", label: t("price.rule.of_last"), kind: "number", unit: "%", min: 0, max: 100, initial: (r?.of_last_basis_points ?? 0) / 100 },
        { name: "min", label: t("price.rule.min"), kind: "money", unit, initial: r?.min_per_gpu_hour ?? "" },
        { name: "max", label: t("price.rule.max"), kind: "money", unit, initial: r?.max_per_gpu_hour ?? "" },
      ]}
      run={(v) =>
        patch(h, {
          spot_floor_rule: {
            of_on_demand_basis_points: Math.round(Number(v.demand || 0) * 100),
            of_last_basis_points: Math.round(Number(v.last || 0) * 100),
            min_per_gpu_hour: v.min || undefined,
            max_per_gpu_hour: v.max || undefined,
          },
        })
      }
    />
  );
}
