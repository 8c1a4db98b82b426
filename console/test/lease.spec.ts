import { readFileSync } from "node:fs";
import { ask, enter, expect, screen, test, tokenOf, type, world } from "./world";

const live = (view: string, lease = world.lease) => `/live/${lease}?view=${view}`;

test("a terminal of a lease says so when the lease is over", { tag: "@more" }, async ({ page, request, token }) => {
  test.setTimeout(150_000);
  await enter(page, "/market", token);
  await expect(page.getByRole("region").getByText("RTX 4090").first()).toBeVisible({ timeout: 45_000 });
  await expect(page.getByText("simulated").first()).toBeVisible();

  const offers = await ask<{ items: { id: string }[] }>(request, token, "get", `/v1/offers?limit=1&where=${encodeURIComponent("gpu_count = 1")}`);
  const quote = await ask<{ id: string }>(request, token, "post", "/v1/quotes", { offer_id: offers.items[0]!.id, image: "cloud://box:1", disk_gib: 1 });
  const lease = await ask<{ id: string }>(request, token, "post", "/v1/leases", { quote_id: quote.id, name: "by-browser" });
  await page.goto(`/console${live("terminal", lease.id)}`);
  await type(page, "echo sum $((40 + 2)) on $(hostname)");
  await expect(screen(page)).toContainText("sum 42 on");

  // What is not of this place is not tried to be shown.
  await ask(request, token, "post", `/v1/leases/${lease.id}/end`);
  await expect(page.getByRole("heading", { name: "Nothing runs now" })).toBeVisible({ timeout: 30_000 });
});

test("a terminal takes the size of its place, says how the shell ended, and opens another", { tag: "@more" }, async ({ page, token }) => {
  await enter(page, live("terminal"), token);
  await type(page, "stty size");
  await expect(screen(page)).toContainText(/\d+ \d{2,3}/);
  await page.setViewportSize({ width: 420, height: 700 });
  await type(page, "clear; echo narrow $(stty size | cut -d' ' -f2)");
  await expect(screen(page)).toContainText(/narrow [3-5]\d/);
  await type(page, "exit 7");
  await expect(page.getByText("The shell ended with code 7")).toBeVisible();
  await page.getByRole("button", { name: "New shell" }).click();
  await type(page, "echo here again");
  await expect(screen(page)).toContainText("here again");
  // Nobody is caught in it.
  await page.keyboard.press("Shift+Escape");
  await expect(page.locator(".xterm-helper-textarea")).not.toBeFocused();
});

test("what a program prints does no more than show", async ({ page, token }) => {
  await enter(page, live("terminal"), token);
  await expect(page).toHaveTitle(/Inside stage/);
  const title = await page.title();
  await type(page, "/data/hostile.sh");
  await expect(screen(page)).toContainText("hostile is over");
  await expect(screen(page)).toContainText("<img src=x onerror=");
  expect(await page.evaluate(() => (window as unknown as { hacked?: number }).hacked)).toBeUndefined();
  expect(await page.title(), "a program cannot name the tab").toBe(title);
  await expect(page.locator(".suanli-terminal img, .suanli-terminal script")).toHaveCount(0);
  await type(page, "clear; echo it still takes commands");
  await expect(screen(page)).toContainText("it still takes commands");
});

test("a flood can be stopped", { tag: "@more" }, async ({ page, token }) => {
  await enter(page, live("terminal"), token);
  await type(page, "yes flood");
  await expect(screen(page)).toContainText("flood");
  await page.keyboard.press("Control+c");
  await type(page, "clear; echo dry $((1 + 1))");
  await expect(screen(page)).toContainText("dry 2");
});

test("a terminal comes back after the server was restarted", { tag: "@more" }, async ({ page, request, token, noise }) => {
  await enter(page, live("terminal"), token);
  await type(page, "echo before");
  await expect(screen(page)).toContainText("before");
  expect((await request.post(`${world.control}/restart`, { timeout: 60_000 })).status()).toBe(204);
  await expect(screen(page)).toContainText("A new shell", { timeout: 60_000 });
  await type(page, "echo and after");
  await expect(screen(page)).toContainText("and after");
  await expect(screen(page), "what was shown is kept").toContainText("before");
  // The browser says of each request that found nobody there.
  noise.splice(0, noise.length, ...noise.filter((n) => !/Failed to load resource|WebSocket connection|ERR_/.test(n)));
});

test("a session that is revoked ends its terminal and asks for another sign-in", { tag: "@more" }, async ({ page, request }) => {
  const token = await tokenOf(request);
  await enter(page, live("terminal"), token);
  await type(page, "echo in");
  await expect(screen(page)).toContainText("in");
  await request.delete("/v1/sessions/current", { headers: { Authorization: `Bearer ${token}` } });
  await expect(page).toHaveURL(/sign-in\?next=/, { timeout: 15_000 });
});

test("graphs are drawn and go on live", { tag: "@more" }, async ({ page, token }) => {
  await enter(page, live("graphs"), token);
  await expect(page.getByText("Live", { exact: true })).toBeVisible();
  await page.getByText("10 min").click();
  await expect(page.getByRole("img", { name: /^GPU: now/ })).toBeVisible();
  // Nothing runs: a line at 0 % has no height to be seen by.
  await expect(page.locator("path.recharts-area-curve").first()).toHaveAttribute("d", /^M.*[LC]/);
});

test("files go there and back, and their names do nothing", { tag: "@more" }, async ({ page, token }) => {
  await enter(page, live("files"), token);
  await page.getByLabel("Folder to open").fill("/data");
  await page.keyboard.press("Enter");
  await expect(page.getByText("<img src=x onerror=hacked=1>.txt")).toBeVisible();
  await expect(page.getByText("\\u202e", { exact: false }), "what turns text around is written out").toBeVisible();
  expect(await page.evaluate(() => (window as unknown as { hacked?: number }).hacked)).toBeUndefined();

  const content = `made in a browser ${Math.random()}`;
  const choose = page.waitForEvent("filechooser");
  await page.getByRole("button", { name: "Upload" }).click();
  await (await choose).setFiles({ name: "note.txt", mimeType: "text/plain", buffer: Buffer.from(content) });
  await expect(page.getByText("note.txt is in the instance")).toBeVisible();
  const download = page.waitForEvent("download");
  await page.getByRole("button", { name: "Download note.txt" }).click();
  expect(readFileSync(await (await download).path(), "utf8")).toBe(content);

  // A link to a folder is followed, and a folder that may not be read says so.
  await page.getByRole("button", { name: "link", exact: true }).click();
  await expect(page.getByLabel("Folder to open")).toHaveValue("/data/link");
  await page.getByLabel("Folder to open").fill("/nowhere");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("alert", { name: "There is no such file" })).toBeVisible();
});
