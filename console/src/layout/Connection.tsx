import { Affix, Alert } from "@mantine/core";
import { IconCloudOff } from "@tabler/icons-react";
import { useQueryClient, type QueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { useTranslation } from "react-i18next";
import { OfflineError } from "../api/client";

const askAgainMs = 2_000;

/** Whether the server can be reached, by how the latest questions went. */
function useReached(queries: QueryClient): boolean {
  const [reached, setReached] = useState(true);
  useEffect(
    () =>
      queries.getQueryCache().subscribe((event) => {
        if (event.type !== "updated") return;
        const { action } = event;
        if (action.type === "success") setReached(true);
        else if (action.type === "pause" || ((action.type === "failed" || action.type === "error") && action.error instanceof OfflineError)) setReached(false);
      }),
    [queries],
  );
  // The browser knows sooner than a question that fails.
  useEffect(() => {
    const lost = () => setReached(false);
    window.addEventListener("offline", lost);
    return () => window.removeEventListener("offline", lost);
  }, []);
  useEffect(() => {
    if (reached) return;
    // A page that asks for nothing by itself comes back as well.
    const timer = setInterval(() => {
      fetch("/readyz", { cache: "no-store" }).then(
        (answer) => answer.ok && setReached(true),
        () => undefined,
      );
    }, askAgainMs);
    return () => {
      clearInterval(timer);
      void queries.invalidateQueries();
    };
  }, [reached, queries]);
  return reached;
}

/** Says that what is shown may be old, for as long as the server does not answer. */
export function Connection() {
  const { t } = useTranslation();
  const reached = useReached(useQueryClient());
  return (
    <Affix position={{ bottom: 16, left: 16 }} role="status">
      {!reached && (
        <Alert color="orange" variant="filled" autoContrast title={t("error.offline.title")} icon={<IconCloudOff />} maw="calc(100vw - 32px)">
          {t("connection.lost")}
        </Alert>
      )}
    </Affix>
  );
}
