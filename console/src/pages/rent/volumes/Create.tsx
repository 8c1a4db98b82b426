import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { api, data, once, type Schema } from "../../../api/client";
import { FormButton } from "../../../ui/FormDialog";
import { money } from "../../../ui/format";

type Place = { label: string; agreed?: string };

/** Makes a volume on the host of a lease or of an offer; a page of volumes needs it at both its ends. */
export function Create() {
  const { t, i18n } = useTranslation();
  const navigate = useNavigate();
  // On a host without room for it, the server says so.
  const offers = useQuery({ queryKey: ["offers", "hosts"], queryFn: ({ signal }) => data(api.GET("/v1/offers", { params: { query: { limit: 500, disk_gib: 1 } }, signal })), refetchInterval: 30_000 });
  const leases = useQuery({ queryKey: ["leases", "hosts"], queryFn: ({ signal }) => data(api.GET("/v1/leases", { params: { query: { limit: 200, live: true } }, signal })), refetchInterval: 30_000 });
  const places = new Map<string, Place>();
  const by = new Map((offers.data?.items ?? []).map((o) => [o.host_id, o]));
  const priced = (host: string): { text: string; agreed?: string } => {
    const p = by.get(host)?.price;
    if (!p) return { text: "" };
    const rate = p.own?.storage_rate ?? p.storage_rate;
    return { text: ` · ${t("volume.price", { price: money(rate, p.own?.currency ?? p.currency, i18n.language) })}`, agreed: rate };
  };
  const simulated = (s: boolean) => (s ? " · simulated" : "");
  for (const l of leases.data?.items ?? []) {
    if (places.has(l.host_id)) continue;
    const { text, agreed } = priced(l.host_id);
    places.set(l.host_id, { label: `${t("volume.where_lease", { name: l.name || l.id })}${text} · ${l.region} / ${l.zone}${simulated(l.simulated)}`, agreed });
  }
  for (const [id, o] of by) {
    if (places.has(id)) continue;
    const { text, agreed } = priced(id);
    places.set(id, { label: `${o.host_name}${text} · ${o.region} / ${o.zone}${simulated(o.simulated)}`, agreed });
  }
  return (
    <FormButton
      title={t("volume.new")}
      about={t("volume.new.about")}
      action={t("volume.new")}
      variant="filled"
      keys={[["volumes"], ["balance"]]}
      after={(v: Schema["Volume"]) => void navigate({ to: "/volumes/$volumeId", params: { volumeId: v.id } })}
      fields={[
        { name: "name", label: t("lease.name"), help: t("volume.name.help") },
        { name: "size_gib", label: t("volume.size"), kind: "number", unit: "GiB", min: 1, max: 65_536, required: true, initial: 100 },
        { name: "host_id", label: t("volume.where"), help: t("volume.where.help"), kind: "choice", required: true, choices: [...places].map(([value, p]) => ({ value, label: p.label })) },
      ]}
      run={(v, key) => {
        const agreed = places.get(v.host_id)?.agreed;
        return data(api.POST("/v1/volumes", { params: { header: once(key) }, body: { ...(v.name.trim() && { name: v.name.trim() }), size_gib: Number(v.size_gib), host_id: v.host_id, ...(agreed && { agreed_per_gib_month: agreed }) } }));
      }}
    />
  );
}
