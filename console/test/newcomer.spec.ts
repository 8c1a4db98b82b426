import { expect, screen, test, type, world } from "./world";

const words = {
  en: { signIn: "Sign in", own: /Your own image/, image: "Image", disk: "Disk", accept: "Accept and start", rent: "Rent", running: "running", terminal: "Terminal", end: "End", ended: "ended", cost: "Cost" },
  "zh-CN": { signIn: "登录", own: /自定义镜像/, image: "镜像", disk: "磁盘", accept: "接受并启动", rent: "租用", running: "运行中", terminal: "终端", end: "结束", ended: "已结束", cost: "费用" },
};

for (const [locale, w] of Object.entries(words)) {
  test.describe(locale, () => {
    test.use({ locale });

    // Nothing but what is on the screen is used, as by somebody who has never been here.
    test(`the first rental of somebody who reads ${locale}, by browser alone, is over in two minutes`, { tag: locale === "en" ? [] : "@more" }, async ({ page }) => {
      test.setTimeout(120_000);
      const begun = Date.now();
      const after = () => `${((Date.now() - begun) / 1000).toFixed(1)} s`;
      await page.goto("/console/");
      await page.locator('input[type="email"]').fill(world.email);
      await page.locator('input[autocomplete="current-password"]').fill(world.password);
      await page.getByRole("button", { name: w.signIn, exact: true }).click();

      const offer = page.getByRole("row").filter({ hasText: "1 × RTX 4090" }).first();
      await expect(offer.getByText("simulated")).toBeVisible();
      await offer.getByRole("button", { name: w.rent, exact: true }).click();
      await page.getByRole("radio", { name: w.own }).click();
      await page.getByLabel(w.image, { exact: true }).fill("cloud://box:1");
      await page.getByLabel(w.disk, { exact: true }).fill("1");
      const accept = page.getByRole("button", { name: w.accept });
      await expect(accept).toBeEnabled();
      await accept.click();

      await expect(page).toHaveURL(/\/leases\/ls-/);
      await expect(page.getByRole("main").getByText(w.running, { exact: true }).first()).toBeVisible({ timeout: 60_000 });
      const runs = after();
      await page.getByRole("tab", { name: w.terminal }).click();
      await type(page, "echo sum $((40 + 2))");
      await expect(screen(page)).toContainText("sum 42");
      const used = after();
      await page.getByRole("tab", { name: w.cost }).click();
      await expect(page.getByRole("tabpanel").getByText("$", { exact: false }).first()).toBeVisible();

      await page.getByRole("button", { name: w.end, exact: true }).click();
      const dialog = page.getByRole("dialog");
      const name = await page.getByRole("heading", { level: 1 }).innerText();
      await dialog.getByRole("textbox").fill(name);
      await dialog.getByRole("button", { name: w.end, exact: true }).click();
      await expect(page.getByRole("main").getByText(w.ended, { exact: true }).first()).toBeVisible({ timeout: 30_000 });
      console.log(`first rental (${locale}): runs after ${runs}, used after ${used}, over after ${after()}`);
    });
  });
}
