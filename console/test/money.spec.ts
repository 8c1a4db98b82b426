import { axeFindings, enter, expect, somebody, test } from "./world";

const words = {
  en: {
    set: "Set a budget", name: "Name", amount: /^Amount/, refuse: "Refuse new leases", change: "Change the budget", save: "Save", remove: "Remove the budget", removing: "Remove", bad: "Use an amount above 0",
    month: /1 month/, not: "Nobody offers this", buy: "Reserve and pay", active: "Active", renew: "Renew at its end", end: "End early", ending: /Ending|Cancelled/, all: "All at once", poor: /balance/i,
  },
  "zh-CN": {
    set: "设置预算", name: "名称", amount: /^金额/, refuse: "拒绝新租约", change: "修改预算", save: "保存", remove: "移除预算", removing: "移除", bad: "请填写大于 0 的金额",
    month: /1 个月/, not: "没有人提供", buy: "预留并付款", active: "生效中", renew: "到期续期", end: "提前结束", ending: /正在结束|已取消/, all: "全部预付", poor: /余额/,
  },
};

for (const [language, w] of Object.entries(words)) {
  test(`a budget is set, changed and removed in ${language}`, { tag: "@more" }, async ({ page, token }) => {
    const name = `vision-${language.toLowerCase()}`;
    await enter(page, "/money?tab=budgets", token, language);
    await page.getByRole("button", { name: w.set }).first().click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("textbox", { name: w.name, exact: true }).fill(name);
    await dialog.getByRole("textbox", { name: w.amount }).fill("nothing");
    await dialog.getByRole("button", { name: w.set }).click();
    await expect(dialog.getByText(w.bad)).toBeVisible();
    await dialog.getByRole("textbox", { name: w.amount }).fill("500");
    await dialog.getByRole("radio", { name: w.refuse }).check();
    expect(await axeFindings(page), "the form").toEqual([]);
    await dialog.getByRole("button", { name: w.set }).click();
    const card = page.getByRole("article", { name });
    await expect(card).toContainText("500.00");
    await expect(card).toContainText("80%");
    expect(await axeFindings(page), "the list").toEqual([]);

    await card.getByRole("button", { name: w.change }).click();
    await expect(dialog.getByRole("textbox", { name: w.amount })).toHaveValue("500");
    await dialog.getByRole("textbox", { name: w.amount }).fill("750.5");
    await dialog.getByRole("button", { name: w.save }).click();
    await expect(card).toContainText("750.50");
    if (language === "en") return; // one is kept, to be looked at
    await card.getByRole("button", { name: w.remove }).click();
    await dialog.getByRole("button", { name: w.removing }).click();
    await expect(card).toHaveCount(0);
  });

  test(`GPUs are reserved, looked at and given back in ${language}`, { tag: language === "en" ? [] : "@more" }, async ({ page, request }) => {
    // With money of their own: what others spend does not change what can be paid for.
    const { token } = await somebody(request, `reserves-${language}`);
    await enter(page, "/reserve?model=RTX%204090&simulated=true", token, language);
    await expect(page.getByRole("radio", { name: w.month })).toBeVisible();
    await expect(page.getByText("simulated", { exact: true }).first()).toBeVisible();
    expect(await axeFindings(page), "the terms").toEqual([]);

    // What nobody offers says so, too.
    await page.goto("/console/reserve?model=H100%20SXM");
    await expect(page.getByRole("alert", { name: w.not })).toBeVisible();
    await page.goto("/console/reserve?model=RTX%204090&simulated=true");

    // What the balance does not pay for says so, with a way on.
    await page.getByText(w.all).click();
    // From the choice on that is shown: the button before was for another one.
    await expect(page.getByRole("radio", { name: w.all })).toBeChecked();
    await page.getByRole("button", { name: w.buy }).click();
    await expect(page.getByRole("alert").first()).toContainText(w.poor);
    await page.goto("/console/reserve?model=RTX%204090&simulated=true&term=1");
    await page.getByRole("button", { name: w.buy }).click();
    await expect(page).toHaveURL(/\/reservations\/rv-/);
    await expect(page.getByText(w.active, { exact: true })).toBeVisible();
    await page.getByRole("switch", { name: w.renew }).click();
    await page.reload();
    await expect(page.getByRole("switch", { name: w.renew })).toBeChecked();
    expect(await axeFindings(page), "the reservation").toEqual([]);
    await page.getByRole("button", { name: w.end }).click();
    const dialog = page.getByRole("dialog");
    const name = await page.getByRole("heading", { level: 1 }).innerText();
    await dialog.getByRole("textbox").fill(name);
    await dialog.getByRole("button", { name: w.end }).click();
    await expect(page.getByText(w.ending).first()).toBeVisible();
  });
}
