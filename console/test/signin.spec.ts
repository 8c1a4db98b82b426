import { axeFindings, enter, expect, test, tokenOf, world } from "./world";

for (const [locale, words] of Object.entries({
  en: { title: "Sign in", email: "E-mail", market: "Market" },
  "zh-CN": { title: "登录", email: "邮箱", market: "市场" },
})) {
  test.describe(locale, () => {
    test.use({ locale });

    test(`somebody who reads ${locale} signs in and is where they wanted to go`, { tag: locale === "en" ? [] : "@more" }, async ({ page }) => {
      await page.goto("/console/market?from=link");
      await expect(page).toHaveURL(/sign-in/);
      await expect(page.locator("html")).toHaveAttribute("lang", locale);
      await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
      expect(await axeFindings(page)).toEqual([]);

      await page.locator('input[type="email"]').fill(world.email);
      await page.locator('input[autocomplete="current-password"]').fill("not the password");
      await page.keyboard.press("Enter");
      await expect(page.getByRole("alert")).toBeVisible();
      await expect(page).toHaveURL(/sign-in/);

      await page.locator('input[autocomplete="current-password"]').fill(world.password);
      await page.keyboard.press("Enter");
      await expect(page).toHaveURL(/\/console\/market/);
      await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
      await expect(page.getByRole("navigation")).toContainText(words.market);
    });
  });
}

test("signing out in one tab signs out the other", { tag: "@more" }, async ({ context, page, request }) => {
  const token = await tokenOf(request);
  await enter(page, "/market", token);
  await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
  const other = await context.newPage();
  await other.goto("/console/market");
  await expect(other.getByRole("heading", { level: 1 })).toBeVisible();
  await page.getByRole("button", { name: "You" }).click();
  await page.getByRole("menuitem", { name: "Sign out" }).click();
  await expect(page).toHaveURL(/sign-in/);
  await expect(other).toHaveURL(/sign-in/);
  const after = await request.get("/v1/me", { headers: { Authorization: `Bearer ${token}` } });
  expect(after.status(), "the session is over on the server, too").toBe(401);
});
