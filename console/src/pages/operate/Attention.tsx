import { Alert, Anchor } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { api, data } from "../../api/client";

/** Money that waits for an operator; nothing where none does. */
export function Attention() {
  const { t } = useTranslation();
  const payments = useQuery({
    queryKey: ["operator", "payments", "attention"],
    queryFn: ({ signal }) => data(api.GET("/v1/operator/payments", { params: { query: { attention: true, limit: 50 } }, signal })),
    refetchInterval: 30_000,
  });
  const payouts = useQuery({
    queryKey: ["operator", "payouts", "requested"],
    queryFn: ({ signal }) => data(api.GET("/v1/operator/payouts", { params: { query: { state: "requested", limit: 50 } }, signal })),
    refetchInterval: 30_000,
  });
  const many = (p?: { items: unknown[] | null; next_cursor?: string }) => (p?.items?.length ? `${p.items.length}${p.next_cursor ? "+" : ""}` : "");
  const paid = many(payments.data);
  const owed = many(payouts.data);
  return (
    <>
      {paid && (
        <Alert color="orange" variant="light" icon={<IconAlertTriangle />}>
          <Anchor component={Link} to="/operate/payments?attention=yes" c="inherit" underline="always">
            {t("op.attention.payments", { n: paid })}
          </Anchor>
        </Alert>
      )}
      {owed && (
        <Alert color="blue" variant="light">
          <Anchor component={Link} to="/operate/payouts?state=requested" c="inherit" underline="always">
            {t("op.attention.payouts", { n: owed })}
          </Anchor>
        </Alert>
      )}
    </>
  );
}
