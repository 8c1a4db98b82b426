import { Button, Group, Select, Skeleton, Stack, Text } from "@mantine/core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, ApiError, data } from "../../../api/client";
import { ErrorPanel } from "../../../ui/errors";
import { duration, money } from "../../../ui/format";

/** How a bid would have fared, and which one would have run most of the time. */
export function Advice({ zone, model, gpus, bid, use }: { zone: string; model: string; gpus: number; bid?: string; use?: (bid: string) => void }) {
  const { t, i18n } = useTranslation();
  const [share, setShare] = useState("9000");
  const advice = useQuery({
    queryKey: ["advice", zone, model, gpus, bid ?? share],
    queryFn: ({ signal }) => data(api.GET("/v1/market/advice", { params: { query: { zone, gpu_model: model, gpus, ...(bid ? { bid_per_gpu_hour: bid } : { share_basis_points: Number(share) }) } }, signal })),
    placeholderData: keepPreviousData,
    retry: false,
  });
  const a = advice.data;
  const percent = (basis: number) => new Intl.NumberFormat(i18n.language, { style: "percent", maximumFractionDigits: 1 }).format(basis / 10_000);
  const unknown = advice.error instanceof ApiError && advice.error.status === 404;
  return (
    <Stack gap="xs">
      {!bid && <Select label={t("advice.share")} value={share} onChange={(v) => v && setShare(v)} allowDeselect={false} w={200} data={["5000", "8000", "9000", "9500", "9900"].map((v) => ({ value: v, label: percent(Number(v)) }))} />}
      {unknown ? (
        <Text size="sm" c="dimmed">
          {t("advice.none")}
        </Text>
      ) : advice.error ? (
        <ErrorPanel error={advice.error} />
      ) : !a ? (
        <Skeleton h={44} />
      ) : (
        <>
          <Text size="sm">
            {t(a.suggested ? "advice.suggested" : "advice.given", {
              bid: money(a.bid_per_gpu_hour, a.currency, i18n.language),
              share: percent(a.share_basis_points),
              count: a.interruptions,
              mean: money(a.mean_price_per_gpu_hour, a.currency, i18n.language),
              window: duration(a.window_seconds, i18n.language),
            })}
          </Text>
          <Group>
            {use && a.suggested && (
              <Button size="compact-sm" variant="light" onClick={() => use(a.bid_per_gpu_hour)}>
                {t("advice.use")}
              </Button>
            )}
            <Text size="xs" c="dimmed">
              {t("advice.past")}
            </Text>
          </Group>
        </>
      )}
    </Stack>
  );
}
