import type { Page } from "@playwright/test";
import { enter, expect, test, tokenOf, world, type Noise } from "./world";

// The browser says of each request that found nobody there.
const expectedNoise = (noise: Noise) => noise.splice(0, noise.length, ...noise.filter((n) => !/Failed to load resource|WebSocket connection|ERR_/.test(n)));
const lost = (page: Page) => page.getByRole("status").getByText("The server does not answer");
const row = (page: Page, name: string) => page.getByRole("row").filter({ hasText: name });

test("a page without a connection says so, and comes up to date by itself", async ({ context, page, token, noise }) => {
  await enter(page, "/leases", token);
  await expect(row(page, "stage")).toBeVisible();
  await context.setOffline(true);
  await expect(lost(page)).toBeVisible({ timeout: 30_000 });
  await expect(row(page, "stage"), "what was there stays").toBeVisible();
  await context.setOffline(false);
  await expect(lost(page)).toHaveCount(0);
  expectedNoise(noise);
});

test("a server that restarts is waited for", { tag: "@more" }, async ({ page, request, token, noise }) => {
  await enter(page, "/leases", token);
  await expect(row(page, "stage")).toBeVisible();
  expect((await request.post(`${world.control}/restart`, { timeout: 60_000 })).status()).toBe(204);
  await page.getByRole("link", { name: "Templates" }).click();
  await expect(page.getByRole("heading", { name: "Templates", level: 1 })).toBeVisible();
  await page.goBack();
  await expect(row(page, "stage")).toBeVisible({ timeout: 30_000 });
  await expect(lost(page)).toHaveCount(0);
  expectedNoise(noise);
});

test("a slow server shows that something is awaited", { tag: "@more" }, async ({ page, token }) => {
  await page.route("**/v1/leases?*", async (route) => {
    await new Promise((done) => setTimeout(done, 1_500));
    await route.continue();
  });
  await enter(page, "/leases", token);
  await expect(page.getByRole("region", { name: "Leases" }).getByRole("status", { name: "Loading" })).toBeVisible();
  await expect(row(page, "stage")).toBeVisible();
});

test("an order whose answer is lost, and that is sent again, is one lease", async ({ page, request, token, noise }) => {
  const headers = { Authorization: `Bearer ${token}` };
  const offers = (await (await request.get(`/v1/offers?limit=1&where=${encodeURIComponent("gpu_count = 1")}`, { headers })).json()) as { items: { id: string }[] };
  const keys: (string | null)[] = [];
  await page.route("**/v1/leases", async (route) => {
    if (route.request().method() !== "POST") return route.continue();
    keys.push(await route.request().headerValue("Idempotency-Key"));
    const answer = await route.fetch(); // the server does it
    if (keys.length === 1) {
      await new Promise((done) => setTimeout(done, 500));
      return route.abort("connectionreset");
    }
    return route.fulfill({ response: answer });
  });
  await enter(page, `/rent/${offers.items[0]!.id}?image=${encodeURIComponent("cloud://box:1")}&disk=1`, token);
  await page.getByLabel("Name", { exact: true }).fill("once-only");
  const accept = page.getByRole("button", { name: "Accept and start" });
  await accept.click();
  await expect(page.getByRole("alert").getByText("What was sent may have been done", { exact: false })).toBeVisible();
  await accept.dblclick();
  await expect(page).toHaveURL(/\/leases\/ls-/);
  expect(new Set(keys).size, `one decision: ${keys.join(" ")}`).toBe(1);
  const all = (await (await request.get("/v1/leases?limit=200", { headers })).json()) as { items: { id: string; name: string }[] };
  const made = all.items.filter((l) => l.name === "once-only");
  expect(made).toHaveLength(1);
  expect((await request.post(`/v1/leases/${made[0]!.id}/end`, { headers })).ok()).toBe(true);
  expectedNoise(noise);
});

test("a lease that one tab renames is renamed in the other", { tag: "@more" }, async ({ context, page, request, token }) => {
  const headers = { Authorization: `Bearer ${token}` };
  await enter(page, "/leases", token);
  await expect(row(page, "stage")).toBeVisible();
  const other = await context.newPage();
  await other.goto("/console/leases");
  await expect(row(other, "stage")).toBeVisible();
  const change = async (name: string) => expect((await request.patch(`/v1/leases/${world.lease}`, { headers, data: { name } })).ok()).toBe(true);
  await change("stage-two");
  await expect(row(page, "stage-two")).toBeVisible({ timeout: 40_000 });
  await expect(row(other, "stage-two")).toBeVisible({ timeout: 40_000 });
  await change("stage");
});

test("who signs in again is where they were, with the filters they had", async ({ page, request }) => {
  const token = await tokenOf(request);
  await enter(page, "/market?count=2", token);
  await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
  await request.delete("/v1/sessions/current", { headers: { Authorization: `Bearer ${token}` } });
  // They come back to the tab; what came a moment ago is not asked for again.
  await expect(async () => {
    await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange", { bubbles: true })));
    await expect(page).toHaveURL(/sign-in\?next=/, { timeout: 1_000 });
  }).toPass({ timeout: 30_000 });
  await page.locator('input[type="email"]').fill(world.email);
  await page.locator('input[autocomplete="current-password"]').fill(world.password);
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/\/console\/market\?count=2/);
  await expect(page.getByRole("radio", { name: "2", exact: true })).toBeChecked();
});
