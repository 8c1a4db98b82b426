import { ask, becomes, choose, enter, expect, field, languages, look, rent, somebody, test, textsOf } from "./world";

for (const language of languages) {
  test(`a volume is made, attached, let go of and deleted in ${language}`, { tag: "@more" }, async ({ page, request }) => {
    test.setTimeout(240_000);
    const t = textsOf(language);
    const { token } = await somebody(request, `keeper-${language}`);
    const name = `keep-${language.toLowerCase()}`;
    const lease = await rent(request, token, "holder");
    await ask(request, token, "post", `/v1/leases/${lease.id}/stop`);

    await enter(page, "/volumes", token, language);
    await expect(page.getByRole("heading", { name: t("volume.empty.title") })).toBeVisible();
    await look(page, `volumes-without-volumes-${language}`);
    await page.getByRole("button", { name: t("volume.new") }).click();
    const dialog = page.getByRole("dialog");
    await field(dialog, t("lease.name")).fill(name);
    await field(dialog, t("volume.size")).fill("1");
    await dialog.getByRole("button", { name: t("volume.new") }).click();
    await expect(dialog.getByText(t("form.needed")), "without a place").toBeVisible();
    await choose(page, dialog, t("volume.where"), "holder");
    await look(page, `volumes-the-form-${language}`);
    await dialog.getByRole("button", { name: t("volume.new") }).click();

    // Its page, as soon as it is asked for; its host makes it.
    await expect(page).toHaveURL(/\/volumes\/[a-z]+-/);
    await expect(page.getByRole("heading", { level: 1, name })).toBeVisible();
    await expect(page.getByText(t("volume.state.available"), { exact: true })).toBeVisible({ timeout: 60_000 });
    await expect(page.getByText("simulated", { exact: true })).toBeVisible();
    await expect(page.getByRole("definition").filter({ hasText: "$" })).toHaveCount(2);

    await becomes(request, token, lease.id, "stopped");
    await page.getByRole("button", { name: t("volume.attach") }).click({ timeout: 30_000 });
    await dialog.getByRole("button", { name: t("volume.attach") }).click();
    const row = page.getByRole("row").filter({ hasText: "holder" });
    await expect(row).toContainText("/volume");
    await expect(row).toContainText(t("volume.writes"));
    await expect(page.getByRole("button", { name: t("volume.delete") }), "while a lease has it").toBeDisabled();
    await look(page, `volumes-with-a-lease-${language}`);
    await row.getByRole("button", { name: t("volume.detach_from", { name: "holder" }) }).click();
    await expect(page.getByText(t("volume.unused.text"))).toBeVisible();

    const remove = page.getByRole("button", { name: t("volume.delete") });
    await remove.click();
    await expect(dialog.getByRole("button", { name: t("volume.delete") }), "before its name is typed").toBeDisabled();
    await dialog.getByRole("textbox").fill(name);
    await dialog.getByRole("button", { name: t("volume.delete") }).click();
    await expect(page.getByRole("alert").getByText(new RegExp(`${t("volume.state.deleting")}|${t("volume.state.deleted")}`)).first()).toBeVisible();
    await page.goto("/console/volumes?over=true");
    await expect(page.getByRole("row").filter({ hasText: name }).getByText(t("volume.state.deleted"), { exact: true })).toBeVisible({ timeout: 60_000 });
    await ask(request, token, "post", `/v1/leases/${lease.id}/end`);
  });
}
