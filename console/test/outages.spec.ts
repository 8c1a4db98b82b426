import { ask, choose, enter, expect, languages, look, rent, somebody, test, textsOf, world } from "./world";

for (const language of languages) {
  test(`an operator tries an outage, sees what leases feel, and ends it, in ${language}`, { tag: "@more" }, async ({ page, request }) => {
    test.setTimeout(300_000);
    const t = textsOf(language);
    const { token } = await somebody(request, `felt-${language}`);
    // On the host that is there for it: the others' leases feel nothing.
    const hosts = await ask<{ items: { id: string; name: string }[] }>(request, world.operator, "get", "/v1/hosts?limit=200");
    const host = hosts.items.find((h) => h.name === "host1")!;
    const lease = await rent(request, token, "feels", `gpu_count = 1 and host_id = "${host.id}"`);
    await enter(page, "/operate/drills", world.operator, language);
    await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
    await look(page, `outages-before-${language}`);
    await choose(page, page, t("cluster.host"), "host1");
    await choose(page, page, t("op.drill.length"), "10");
    await page.getByRole("button", { name: t("op.drill.look") }).click();
    const dialog = page.getByRole("dialog");
    await expect(dialog, "what would be felt").toContainText("cuts 1 hosts");
    await dialog.getByRole("button", { name: t("op.drill.begin") }).click();
    await expect(page).toHaveURL(/drill=/);
    try {
      await expect(page.getByRole("alert").getByText(t("op.drill.on"), { exact: true })).toBeVisible();
      const row = page.getByRole("row").filter({ hasText: lease.id });
      await expect(row.getByText(t("lease.state.unreachable"), { exact: true })).toBeVisible({ timeout: 120_000 });
      await look(page, `outages-during-${language}`);
      await page.getByRole("button", { name: t("op.drill.stop") }).click();
      await expect(page.getByRole("alert").getByText(t("op.drill.back"), { exact: true })).toBeVisible({ timeout: 90_000 });
      await expect(row.getByText(t("op.drill.ended.no"), { exact: true }), "it lives").toBeVisible();
    } finally {
      // Whatever became of it, nobody else is cut off by it.
      await request.post(`/v1/operator/drills/${new URL(page.url()).searchParams.get("drill")}/end`, { headers: { Authorization: `Bearer ${world.operator}` } });
    }
    await ask(request, token, "post", `/v1/leases/${lease.id}/end`);
  });
}
