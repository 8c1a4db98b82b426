import { mkdirSync } from "node:fs";
import { axeFindings, enter, expect, test, world } from "./world";

const widths = [360, 1280, 2560];

// Each place of the menu, as far as the renter sees it, and those that no menu leads to.
test("each page is without findings of axe in both themes, and is kept as a picture at three widths", async ({ page, token }) => {
  test.setTimeout(300_000);
  await enter(page, "/market", token);
  await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
  const menu = await page.locator("nav a[href^='/console/']").evaluateAll((list) => list.map((a) => a.getAttribute("href")!.replace("/console", "")));
  const places = [...new Set([...menu, ...["terminal", "graphs", "files"].map((v) => `/live/${world.lease}?view=${v}`), "/nowhere"])];
  mkdirSync(world.out, { recursive: true });
  const found: string[] = [];
  for (const theme of ["light", "dark"]) {
    await page.evaluate((theme) => localStorage.setItem("mantine-color-scheme-value", theme), theme);
    for (const place of places) {
      await page.setViewportSize({ width: 1280, height: 800 });
      await page.goto(`/console${place}`);
      await expect(page.getByRole("heading").first()).toBeVisible();
      await page.waitForLoadState("load");
      for (const f of await axeFindings(page)) found.push(`${place} (${theme}): ${f}`);
      const name = place.replace(world.lease, "lease").replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");
      for (const width of widths) {
        await page.setViewportSize({ width, height: width < 500 ? 780 : 1000 });
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        if (wide > 0) found.push(`${place} at ${width} px is ${wide} px wider than the window`);
        await page.screenshot({ path: `${world.out}/${name}-${width}-${theme}.jpg`, type: "jpeg", quality: 80 });
      }
    }
  }
  expect(found).toEqual([]);
});
