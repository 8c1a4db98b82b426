import { mkdirSync } from "node:fs";
import type { Page } from "@playwright/test";
import { ask, axeFindings, enter, expect, test, world } from "./world";

const widths = world.all ? [360, 1280, 2560] : [360];

/** What axe finds on a page, and where it is wider than the window; the whole run keeps pictures of it, to be looked at. */
async function look(page: Page, place: string, theme: string): Promise<string[]> {
  const found: string[] = [];
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.goto(`/console${place}`);
  await expect(page.getByRole("heading").first()).toBeVisible();
  await page.waitForLoadState("load");
  // What is looked at is the page with its content.
  await expect(page.locator('[role="status"][aria-label="Loading"]')).toHaveCount(0);
  for (const f of await axeFindings(page)) found.push(`${place} (${theme}): ${f}`);
  for (const width of widths) {
    await page.setViewportSize({ width, height: width < 500 ? 780 : 1000 });
    // Charts follow the window's size in the frames after.
    const fits = page.waitForFunction(() => document.documentElement.scrollWidth <= innerWidth, undefined, { timeout: 3_000 });
    await fits.catch(async () => found.push(`${place} at ${width} px is ${await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)} px wider than the window`));
    if (!world.all) continue;
    await page.waitForTimeout(250);
    const name = place.replace(world.lease, "lease").replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");
    await page.screenshot({ path: `${world.out}/${name}-${width}-${theme}.png` });
  }
  return found;
}

const live = (view: string) => `/live/${world.lease}?view=${view}`;

// One of each kind: cards and what there is not, a list, a terminal, forms, figures.
test("pages of each kind are without findings of axe and no wider than a small window", async ({ page, token }) => {
  test.skip(world.all, "all of them are looked at");
  await enter(page, "/market?model=H100%20SXM", token);
  const found: string[] = [];
  for (const place of ["/market?model=H100%20SXM", "/leases", live("terminal"), "/account/security", "/money"]) found.push(...(await look(page, place, "light")));
  expect(found).toEqual([]);
});

// Each place of the menu, as far as each of them sees it, and those that no menu leads to.
const others = {
  renter: async () => [...["terminal", "graphs", "files"].map(live), "/money?tab=budgets", "/money?tab=payments", "/reserve?model=RTX%204090&simulated=true", "/new-cluster?model=RTX%204090&simulated=true", "/market?model=H100%20SXM", "/nowhere"],
  operator: async (accounts: { id: string }[]) => [`/operate/accounts/${accounts[0]!.id}`],
};

for (const [who, further] of Object.entries(others)) {
  for (const theme of ["light", "dark"]) {
    test(`each page of a ${who}'s is without findings of axe and no wider than the window, in ${theme}`, { tag: "@more" }, async ({ page, request, token: renter }) => {
      test.setTimeout(600_000);
      const token = who === "operator" ? world.operator : renter;
      await enter(page, "/market", token);
      await page.evaluate((theme) => localStorage.setItem("mantine-color-scheme-value", theme), theme);
      await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
      // The menu is as long as the person's rights, which come a moment after the page.
      const entries = page.locator("nav a[href^='/console/']");
      const least = who === "operator" ? 20 : 10;
      await expect.poll(() => entries.count()).toBeGreaterThan(least);
      const menu = await entries.evaluateAll((list) => list.map((a) => a.getAttribute("href")!.replace("/console", "")));
      const accounts = who === "operator" ? (await ask<{ items: { id: string }[] }>(request, token, "get", "/v1/operator/accounts?limit=1")).items : [];
      // Operators rent, too; what both have was looked at with the renter.
      const places = [...new Set([...(who === "operator" ? menu.filter((p) => p.startsWith("/operate") || p.startsWith("/hosts") || p.startsWith("/payouts")) : menu), ...(await further(accounts))])];
      expect(places.length, places.join(" ")).toBeGreaterThan(15);
      mkdirSync(world.out, { recursive: true });
      const found: string[] = [];
      for (const place of places) found.push(...(await look(page, place, theme)));
      expect(found).toEqual([]);
    });
  }
}
