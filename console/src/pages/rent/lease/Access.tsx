import { Alert, Anchor, Button, Group, NumberInput, Paper, Select, Skeleton, Stack, Table, Text, Title } from "@mantine/core";
import { IconExternalLink } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, data, newKey, once, type Schema } from "../../../api/client";
import { confirm } from "../../../ui/confirm";
import { Copy } from "../../../ui/Copy";
import { ErrorPanel } from "../../../ui/errors";
import { Time } from "../../../ui/format";

// Only what a browser opens as a page: nothing else is made a link of.
const page = (url: string) => /^https?:\/\//i.test(url);

/** How to get into a lease: SSH, its ports in the browser, links for others. */
export function Access({ lease }: { lease: Schema["Lease"] }) {
  const { t } = useTranslation();
  const queries = useQueryClient();
  const running = lease.state === "running";
  const access = useQuery({ queryKey: ["lease", lease.id, "access"], queryFn: ({ signal }) => data(api.GET("/v1/leases/{lease_id}/access", { params: { path: { lease_id: lease.id } }, signal })), staleTime: 60_000, enabled: running });
  const a = access.data;
  const ports = Object.keys(a?.urls ?? {});
  const [port, setPort] = useState<string | null>(null);
  const [minutes, setMinutes] = useState<number | string>(60);
  const link = useMutation({ mutationFn: () => data(api.POST("/v1/leases/{lease_id}/links", { params: { path: { lease_id: lease.id } }, body: { port: Number(port ?? ports[0]), expires_in_seconds: Number(minutes || 0) * 60 } })) });
  const revoke = useMutation({
    mutationFn: (key: string) => api.DELETE("/v1/leases/{lease_id}/links", { params: { path: { lease_id: lease.id }, header: once(key) } }),
    onSuccess: () => {
      link.reset();
      return queries.invalidateQueries({ queryKey: ["lease", lease.id, "access"] });
    },
  });
  return (
    <Paper withBorder p="md" component="section">
      <Title order={2} size="h4" mb="sm">
        {t("access.title")}
      </Title>
      {!running ? (
        <Text c="dimmed">{t("access.not_running")}</Text>
      ) : access.error ? (
        <ErrorPanel error={access.error} retry={() => void access.refetch()} />
      ) : !a ? (
        <Skeleton h={120} />
      ) : (
        <Stack>
          <div>
            <Text size="sm" fw={500}>
              SSH
            </Text>
            <Copy text={`ssh -p ${a.ssh_port} ${a.ssh_user}@${a.ssh_host}`} />
          </div>
          {ports.length > 0 ? (
            <Table>
              <Table.Thead>
                <Table.Tr>
                  <Table.Th>{t("access.port")}</Table.Th>
                  <Table.Th>{t("access.browser")}</Table.Th>
                  {lease.direct_ports && <Table.Th>{t("access.direct")}</Table.Th>}
                </Table.Tr>
              </Table.Thead>
              <Table.Tbody>
                {ports.map((p) => (
                  <Table.Tr key={p}>
                    <Table.Td className="figure">{p}</Table.Td>
                    <Table.Td>
                      {page(a.urls[p]!) && (
                        <Button component="a" href={a.urls[p]} target="_blank" rel="noopener noreferrer" size="compact-sm" variant="light" rightSection={<IconExternalLink size={14} />}>
                          {t("access.open")}
                        </Button>
                      )}
                    </Table.Td>
                    {lease.direct_ports && <Table.Td className="figure">{lease.direct_ports[p] ?? "–"}</Table.Td>}
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
          ) : (
            <Text size="sm" c="dimmed">
              {t("access.no_ports")}
            </Text>
          )}
          {ports.length > 0 && (
            <Stack gap="xs">
              <Text size="sm" fw={500}>
                {t("access.share")}
              </Text>
              <Group align="flex-end">
                <Select label={t("access.port")} w={110} data={ports} value={port ?? ports[0] ?? null} onChange={setPort} allowDeselect={false} />
                <NumberInput label={t("access.minutes")} description={t("access.minutes.help")} inputWrapperOrder={["label", "input", "description"]} w={190} min={0} max={525_600} allowDecimal={false} value={minutes} onChange={setMinutes} />
                <Button variant="default" loading={link.isPending} onClick={() => link.mutate()} mb={20}>
                  {t("access.make_link")}
                </Button>
                <Button
                  variant="subtle"
                  color="red"
                  mb={20}
                  loading={revoke.isPending}
                  onClick={async () => {
                    const key = newKey();
                    if (await confirm({ title: t("access.revoke"), text: t("access.revoke.text"), action: t("access.revoke"), danger: true })) revoke.mutate(key);
                  }}
                >
                  {t("access.revoke")}
                </Button>
              </Group>
              {(link.error ?? revoke.error) && <ErrorPanel error={link.error ?? revoke.error} />}
              {link.data && (
                <Alert variant="light" title={t("access.link_once")}>
                  <Copy text={link.data.url} />
                  {link.data.expires_at && (
                    <Text size="sm">
                      {t("access.until")} <Time at={link.data.expires_at} />
                    </Text>
                  )}
                </Alert>
              )}
            </Stack>
          )}
          {Object.keys(a.environment ?? {}).length > 0 && (
            <div>
              <Text size="sm" fw={500}>
                {t("access.secrets")}
              </Text>
              {Object.entries(a.environment).map(([k, v]) => (
                <Copy key={k} text={v} label={`${k}=••••••`} />
              ))}
            </div>
          )}
          <Text size="sm">
            {t("access.no_key")} <Anchor component={Link} to="/account/keys" underline="always">{t("nav.keys")}</Anchor>
          </Text>
        </Stack>
      )}
    </Paper>
  );
}
