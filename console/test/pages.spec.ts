import { mkdirSync } from "node:fs";
import { axeFindings, enter, expect, test, world } from "./world";

const themes = world.all ? ["light", "dark"] : ["light"];
const widths = world.all ? [360, 1280, 2560] : [360];

// Each place of the menu, as far as the renter sees it, and those that no menu leads to.
test("each page is without findings of axe and no wider than a small window", async ({ page, token }) => {
  test.setTimeout(300_000);
  await enter(page, "/market", token);
  await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
  // The menu is as long as the person's rights, which come a moment after the page.
  const entries = page.locator("nav a[href^='/console/']");
  await expect.poll(() => entries.count()).toBeGreaterThan(10);
  const menu = await entries.evaluateAll((list) => list.map((a) => a.getAttribute("href")!.replace("/console", "")));
  const places = [...new Set([...menu, ...["terminal", "graphs", "files"].map((v) => `/live/${world.lease}?view=${v}`), "/money?tab=budgets", "/money?tab=payments", "/reserve?model=RTX%204090&simulated=true", "/new-cluster?model=RTX%204090&simulated=true", "/market?model=H100%20SXM", "/nowhere"])];
  expect(places.length, places.join(" ")).toBeGreaterThan(15);
  mkdirSync(world.out, { recursive: true });
  const found: string[] = [];
  for (const theme of themes) {
    await page.evaluate((theme) => localStorage.setItem("mantine-color-scheme-value", theme), theme);
    for (const place of places) {
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
        // Pictures are kept, to be looked at.
        await page.waitForTimeout(250);
        const name = place.replace(world.lease, "lease").replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");
        await page.screenshot({ path: `${world.out}/${name}-${width}-${theme}.png` });
      }
    }
  }
  expect(found).toEqual([]);
});
