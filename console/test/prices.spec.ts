import { ask, choose, enter, expect, field, languages, look, somebody, test, textsOf, world } from "./world";

for (const language of languages) {
  const t = textsOf(language);

  test(`an operator sets what months take off in ${language}`, { tag: "@more" }, async ({ page }) => {
    await enter(page, "/operate/volume-discounts", world.operator, language);
    const open = page.getByRole("button", { name: t("op.discount.new") });
    const dialog = page.getByRole("dialog");
    const empty = async () => {
      await open.click();
      await expect(dialog).toBeVisible();
      // It begins with the steps that were set last, if there are any.
      const drop = dialog.getByRole("button", { name: t("op.discount.drop", { n: 1 }) });
      while ((await drop.count()) > 0) await drop.click();
      await expect(dialog.getByText(t("op.discount.none"))).toBeVisible();
    };
    await empty();
    for (const [i, [from, percent]] of [["1000", "5"], ["5000", "twelve"]].entries()) {
      await dialog.getByRole("button", { name: t("op.discount.add") }).click();
      const step = dialog.getByRole("group", { name: t("op.discount.tier", { n: i + 1 }) });
      await field(step, t("op.discount.from")).fill(from!);
      await field(step, t("op.discount.percent")).fill(percent!);
    }
    await dialog.getByRole("button", { name: t("op.discount.set") }).click();
    await expect(dialog.getByText(t("op.discount.bad_percent"))).toBeVisible();
    await look(page, `prices-the-form-${language}`);
    await field(dialog.getByRole("group", { name: t("op.discount.tier", { n: 2 }) }), t("op.discount.percent")).fill("12.5");
    await dialog.getByRole("button", { name: t("op.discount.set") }).click();
    await expect(dialog).toHaveCount(0);
    await expect(page.getByRole("listitem").filter({ hasText: "5,000.00" }).first()).toContainText("12.5%");
    await expect(page.getByText(t("op.discount.newest"), { exact: true }).first()).toBeVisible();
    await look(page, `prices-the-steps-${language}`);

    await empty();
    await dialog.getByRole("button", { name: t("op.discount.set") }).click();
    await expect(dialog).toHaveCount(0);
    await expect(page.getByText(t("op.discount.none"), { exact: true }).first()).toBeVisible();
  });

  test(`an operator gives an account a price list, and takes it away, in ${language}`, { tag: "@more" }, async ({ page, request }) => {
    const who = await somebody(request, `priced-${language}`, "");
    const name = `research ${language}`;
    const lists = async () => (await ask<{ items: { name: string; accounts: { ended_at?: string }[] }[] }>(request, who.token, "get", "/v1/price-lists")).items.filter((l) => l.name === name && l.accounts.some((a) => !a.ended_at)).length;
    await enter(page, "/operate/price-lists", world.operator, language);
    await page.getByRole("button", { name: t("op.prices.new") }).first().click();
    const dialog = page.getByRole("dialog");
    await field(dialog, t("host.name")).fill(name);
    await choose(page, dialog, t("op.prices.meter"), t("meter.compute"));
    await field(dialog, t("op.prices.percent")).fill("12.5");
    await look(page, `prices-the-list-form-${language}`);
    await dialog.getByRole("button", { name: t("op.prices.new") }).click();
    const list = page.locator("section").filter({ has: page.getByRole("heading", { name, exact: true }) });
    await expect(list.getByRole("listitem")).toContainText("12.5%");
    await expect(list.getByText(t("op.prices.no_accounts"))).toBeVisible();

    await list.getByRole("button", { name: t("op.prices.assign") }).click();
    await field(dialog, t("op.prices.account")).fill(who.account);
    await dialog.getByRole("button", { name: t("op.prices.assign") }).click();
    await expect(list.getByRole("link", { name: who.account })).toBeVisible();
    expect(await lists(), "what the account has").toBe(1);
    await look(page, `prices-the-list-${language}`);

    await list.getByRole("button", { name: t("op.prices.take") }).click();
    await dialog.getByRole("button", { name: t("op.prices.take") }).click();
    await expect(list.getByText(t("op.prices.taken"), { exact: true })).toBeVisible();
    expect(await lists(), "what the account has after").toBe(0);
  });
}
