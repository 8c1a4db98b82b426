import { enter, expect, field, languages, look, somebody, test, textsOf } from "./world";

for (const language of languages) {
  test(`a cluster is priced, started, used on all nodes and ended in ${language}`, { tag: "@more" }, async ({ page, request }) => {
    test.setTimeout(300_000);
    const t = textsOf(language);
    const { token } = await somebody(request, `trainer-${language}`);
    const name = `gang-${language.toLowerCase()}`;
    await enter(page, "/new-cluster?model=RTX%204090&simulated=true&nodes=2&image=cloud%3A%2F%2Fbox%3A1&disk=1", token, language);
    const accept = page.getByRole("button", { name: t("cluster.accept"), exact: true });
    await expect(accept).toBeEnabled();
    await expect(page.getByText("simulated", { exact: true }).first()).toBeVisible();
    await look(page, `cluster-the-price-${language}`);
    await field(page, t("order.name")).fill(name);
    await accept.click();

    await expect(page).toHaveURL(/\/clusters\/cl-/);
    await expect(page.getByRole("alert").getByText(t("cluster.state.running.title"), { exact: true })).toBeVisible({ timeout: 120_000 });
    await expect(page.getByRole("region", { name: t("cluster.nodes") }).getByText(t("cluster.peers", { peers: 1, of: 1 }))).toHaveCount(2, { timeout: 60_000 });

    await page.getByRole("button", { name: t("cluster.launch"), exact: true }).click();
    const dialog = page.getByRole("dialog");
    await field(dialog, t("cluster.launch.command")).fill("echo rank $RANK of $WORLD_SIZE");
    await dialog.getByRole("button", { name: t("cluster.launch"), exact: true }).click();
    const output = page.getByRole("region", { name: t("cluster.run.output") });
    for (const rank of [0, 1]) await expect(output).toContainText(`rank ${rank} of 2`, { timeout: 60_000 });
    await expect(page.getByRole("region", { name: t("cluster.runs"), exact: true }).getByText(t("cluster.run.state.succeeded"), { exact: true })).toBeVisible({ timeout: 60_000 });
    await look(page, `cluster-the-cluster-${language}`);

    await page.getByRole("button", { name: t("cluster.end"), exact: true }).click();
    await dialog.getByRole("textbox").fill(name);
    await dialog.getByRole("button", { name: t("cluster.end"), exact: true }).click();
    await expect(page.getByText(t("cluster.state.ended"), { exact: true }).first()).toBeVisible({ timeout: 90_000 });
  });
}
