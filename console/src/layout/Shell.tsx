import { ActionIcon, Anchor, AppShell, Badge, Burger, Button, Group, Kbd, Menu, NavLink, ScrollArea, Skeleton, Text, UnstyledButton, useMantineColorScheme } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { Spotlight, spotlight, type SpotlightActionGroupData } from "@mantine/spotlight";
import { IconLanguage, IconLogout, IconMoon, IconSearch, IconSun, IconUser } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link, Outlet, useNavigate, useRouter, useRouterState } from "@tanstack/react-router";
import { useEffect } from "react";
import { useTranslation } from "react-i18next";
import { api, data } from "../api/client";
import { languages, setLanguage, type Language } from "../i18n";
import { useMe } from "../me";
import { Bell } from "../pages/account/news/Bell";
import { areas } from "../pages/nav";
import { session, useToken } from "../session";
import { Money } from "../ui/format";
import { Connection } from "./Connection";

/** What is around every page: menu, balance, language, theme, command palette. */
export function Shell() {
  const { t, i18n } = useTranslation();
  const me = useMe();
  const token = useToken();
  const navigate = useNavigate();
  const router = useRouter();
  const [opened, menu] = useDisclosure();
  const path = useRouterState({ select: (s) => s.location.pathname });
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const dark = colorScheme === "dark" || (colorScheme === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
  const balance = useQuery({
    queryKey: ["balance"],
    queryFn: ({ signal }) => data(api.GET("/v1/balance", { signal })),
    refetchInterval: 15_000,
    enabled: me?.actions.includes("billing:read") ?? false,
  }).data;

  useEffect(() => {
    if (token) return;
    // Where they were, with all its filters; read when it is needed, since going away
    // changes it.
    const { href } = router.state.location;
    void navigate({ to: "/sign-in", search: href === "/" ? {} : { next: href } });
  }, [token, navigate, router]);
  useEffect(() => menu.close(), [path]); // eslint-disable-line react-hooks/exhaustive-deps

  // The menu comes as a whole, once it is known what somebody may do.
  const seen = (me ? areas : [])
    .map((a) => ({ ...a, places: a.places.filter((p) => !p.action || me?.actions.includes(p.action)) }))
    .filter((a) => a.places.length > 0);

  const signOut = async () => {
    // Whatever becomes of the request, this browser forgets.
    await api.DELETE("/v1/sessions/{session_id}", { params: { path: { session_id: "current" } } }).catch(() => undefined);
    session.end();
  };

  const commands: SpotlightActionGroupData[] = [
    ...seen.map((a) => ({
      group: t(a.text),
      actions: a.places.map((p) => ({
        id: p.to,
        label: t(p.text),
        keywords: p.keys ? t(p.keys) : undefined,
        leftSection: <p.icon size={18} />,
        onClick: () => void navigate({ to: p.to }),
      })),
    })),
    {
      group: t("nav.settings"),
      actions: [
        { id: "theme", label: t(dark ? "theme.light" : "theme.dark"), leftSection: dark ? <IconSun size={18} /> : <IconMoon size={18} />, onClick: () => setColorScheme(dark ? "light" : "dark") },
        ...Object.entries(languages).map(([code, name]) => ({ id: code, label: name, leftSection: <IconLanguage size={18} />, onClick: () => void setLanguage(code as Language) })),
        { id: "sign-out", label: t("action.sign_out"), leftSection: <IconLogout size={18} />, onClick: () => void signOut() },
      ],
    },
  ];

  return (
    <AppShell header={{ height: 56 }} navbar={{ width: 220, breakpoint: "sm", collapsed: { mobile: !opened } }} padding={{ base: "sm", sm: "md" }}>
      <Anchor href="#main" className="skip">
        {t("nav.skip")}
      </Anchor>
      <AppShell.Header>
        <Group h="100%" px="md" justify="space-between" wrap="nowrap">
          <Group gap="sm" wrap="nowrap">
            <Burger opened={opened} onClick={menu.toggle} hiddenFrom="sm" size="sm" aria-label={t("nav.menu")} />
            <UnstyledButton component={Link} to="/market" aria-label="suanli">
              <Group gap={8} wrap="nowrap">
                <img src="/console/icon.svg" width={28} height={28} alt="" />
                <Text fw={700} visibleFrom="xs">
                  suanli
                </Text>
              </Group>
            </UnstyledButton>
          </Group>
          <Group gap="xs" wrap="nowrap">
            <Button variant="default" size="xs" leftSection={<IconSearch size={14} />} rightSection={<Kbd size="xs">Ctrl K</Kbd>} onClick={spotlight.open} visibleFrom="sm">
              {t("action.search")}
            </Button>
            <ActionIcon variant="default" size="lg" onClick={spotlight.open} hiddenFrom="sm" aria-label={t("action.search")}>
              <IconSearch size={16} />
            </ActionIcon>
            {balance && (
              <Badge variant="light" size="lg" tt="none" visibleFrom="xs" style={{ flexShrink: 0 }} aria-label={t("nav.balance")}>
                <Money amount={balance.available} currency={balance.currency} />
              </Badge>
            )}
            {me && <Bell />}
            <Menu position="bottom-end" withinPortal>
              <Menu.Target>
                <ActionIcon variant="default" size="lg" aria-label={t("nav.language")}>
                  <IconLanguage size={16} />
                </ActionIcon>
              </Menu.Target>
              <Menu.Dropdown>
                {Object.entries(languages).map(([code, name]) => (
                  <Menu.Item key={code} lang={code} fw={i18n.language === code ? 700 : 400} onClick={() => void setLanguage(code as Language)}>
                    {name}
                  </Menu.Item>
                ))}
              </Menu.Dropdown>
            </Menu>
            <ActionIcon variant="default" size="lg" onClick={() => setColorScheme(dark ? "light" : "dark")} aria-label={t(dark ? "theme.light" : "theme.dark")}>
              {dark ? <IconSun size={16} /> : <IconMoon size={16} />}
            </ActionIcon>
            <Menu position="bottom-end" withinPortal>
              <Menu.Target>
                <ActionIcon variant="default" size="lg" aria-label={t("nav.you")}>
                  <IconUser size={16} />
                </ActionIcon>
              </Menu.Target>
              <Menu.Dropdown>
                {me && <Menu.Label>{me.user.email}</Menu.Label>}
                <Menu.Item leftSection={<IconLogout size={16} />} onClick={() => void signOut()}>
                  {t("action.sign_out")}
                </Menu.Item>
              </Menu.Dropdown>
            </Menu>
          </Group>
        </Group>
      </AppShell.Header>
      <AppShell.Navbar p="xs" aria-label={t("nav.menu")}>
        <ScrollArea>
          {!me && <Skeleton h={320} role="status" aria-label={t("loading")} />}
          {seen.map((a) => (
            <div key={a.text}>
              <Text size="xs" fw={600} c="dimmed" px="sm" pt="sm" pb={4}>
                {t(a.text)}
              </Text>
              {a.places.map((p) => (
                <NavLink key={p.to} component={Link} to={p.to} label={t(p.text)} leftSection={<p.icon size={18} />} active={path === p.to || path.startsWith(p.to + "/")} aria-current={path === p.to ? "page" : undefined} />
              ))}
            </div>
          ))}
        </ScrollArea>
      </AppShell.Navbar>
      <AppShell.Main id="main" tabIndex={-1}>
        <Outlet />
      </AppShell.Main>
      <Connection />
      <Spotlight actions={commands} shortcut={["mod + K", "/"]} nothingFound={t("palette.nothing")} highlightQuery searchProps={{ placeholder: t("palette.placeholder"), "aria-label": t("palette.placeholder") }} />
    </AppShell>
  );
}
