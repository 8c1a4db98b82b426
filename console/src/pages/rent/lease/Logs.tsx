import { useTranslation } from "react-i18next";
import type { Schema } from "../../../api/client";
import { Output } from "../../../ui/Output";

/** What a lease printed, and prints. */
export function Logs({ lease }: { lease: Schema["Lease"] }) {
  const { t } = useTranslation();
  const path = `/v1/leases/${encodeURIComponent(lease.id)}/logs`;
  return <Output label={t("logs.title")} path={`${path}?follow=true&tail=5000`} again={`${lease.generation} ${lease.state === "running"}`} file={{ path, name: `${lease.name || lease.id}.log` }} none={{ code: "no_logs", text: t("logs.none") }} />;
}
