import { expect, look, mailedCode, test, world } from "./world";

const words = {
  en: { send: "Send me a code", make: "Make an account", start: "Start the trial", begins: "Its time begins with your first use.", market: "To the market", wrong: "That code does not work" },
  "zh-CN": { send: "发送验证码", make: "注册账户", start: "开始试用", begins: "时间自您首次使用起算。", market: "前往市场", wrong: "验证码无效" },
};

for (const [locale, w] of Object.entries(words)) {
  test.describe(locale, () => {
    test.use({ locale, timezoneId: "Asia/Shanghai" });

    test(`a stranger who reads ${locale} makes an account by browser alone and starts the trial`, { tag: locale === "zh-CN" ? [] : "@more" }, async ({ page, request }) => {
      const email = `new-${locale.toLowerCase()}@example.test`;
      await page.goto("/console/sign-in");
      await page.getByRole("link", { name: w.make }).click();
      await expect(page.getByRole("heading", { name: w.make })).toBeVisible();
      await expect(page.getByText(/10\.00/)).toBeVisible();
      await look(page, `sign-up-${locale}`);

      await page.locator('input[type="email"]').fill(email);
      await page.getByRole("button", { name: w.send }).click();
      const digits = page.locator('input[autocomplete="one-time-code"]');
      await expect(digits.first()).toBeFocused();
      await look(page, `sign-up-code-${locale}`);

      const code = await mailedCode(request, email);
      await page.keyboard.type(code === "000000" ? "000001" : "000000");
      await page.locator('input[autocomplete="new-password"]').fill("four words kept well");
      await page.getByRole("button", { name: w.make }).click();
      await expect(page.getByRole("alert", { name: w.wrong })).toBeVisible();
      await digits.first().focus();
      await page.keyboard.type(code);
      await page.getByRole("button", { name: w.make }).click();

      await expect(page.getByRole("button", { name: w.start })).toBeVisible();
      await look(page, `sign-up-ready-${locale}`);
      await page.getByRole("button", { name: w.start }).click();
      await expect(page.getByText(w.begins).or(page.getByRole("alert"))).toBeVisible();
      await page.getByRole("link", { name: w.market }).click();
      await expect(page).toHaveURL(/\/console\/market/);
      const token = await page.evaluate(() => localStorage.getItem("suanli.token"));
      const me = (await (await request.get("/v1/me", { headers: { Authorization: `Bearer ${token}` } })).json()) as { account: { time_zone: string }; user: { email: string } };
      expect([me.user.email, me.account.time_zone]).toEqual([email, "Asia/Shanghai"]);
    });
  });
}

test("an address that has an account is answered as any other, and told by mail alone", async ({ page, request }) => {
  await page.goto("/console/sign-up");
  await page.locator('input[type="email"]').fill(world.email);
  await page.getByRole("button", { name: "Send me a code" }).click();
  await expect(page.getByText(`If ${world.email} can have an account here`)).toBeVisible();
  expect(await mailedCode(request, world.email), "a code in the mail").toBe("");
});
