import { mkdirSync, readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { expect, test as base, type APIRequestContext, type Locator, type Page } from "@playwright/test";

const need = (name: string) => {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set: these tests are run by e2e/console_test.go`);
  return value;
};

export const world = {
  email: need("SUANLI_EMAIL"),
  password: need("SUANLI_PASSWORD"),
  lease: need("SUANLI_LEASE"), // runs all the time
  operator: need("SUANLI_OPERATOR"), // the token of who runs the cloud
  control: need("SUANLI_CONTROL"), // the address that restarts the server and tells what was mailed
  out: need("SUANLI_OUT"),
  all: process.env.SUANLI_TEST_CONSOLE === "all", // and not only what each change is checked by
};

/** What went wrong in a page without a person being told. */
export type Noise = string[];

/** A test whose pages may complain of nothing, and a token of the renter's. */
export const test = base.extend<{ noise: Noise }, { token: string }>({
  noise: [
    async ({ context }, use) => {
      const noise: Noise = [];
      context.on("console", (m) => {
        // What the API refuses is told to the person, and besides by the browser itself.
        const refused = m.text().startsWith("Failed to load resource: the server responded with a status of 4") && m.location().url.includes("/v1/");
        if ((m.type() === "error" || m.type() === "warning") && !refused) noise.push(`${m.type()}: ${m.text()}`);
      });
      context.on("weberror", (e) => noise.push(`thrown: ${e.error().message}`));
      await context.addInitScript(() => {
        document.addEventListener("securitypolicyviolation", (e) => console.error(`CSP: ${e.violatedDirective} ${e.blockedURI} ${e.sourceFile}:${e.lineNumber}`));
      });
      await use(noise);
      expect(noise, "what the pages complained of").toEqual([]);
    },
    { auto: true },
  ],
  // A sign-in costs the server work on purpose: one is enough for all who leave it be.
  token: [
    async ({ playwright }, use) => {
      const request = await playwright.request.newContext({ baseURL: process.env.SUANLI_URL });
      await use(await tokenOf(request));
      await request.dispose();
    },
    { scope: "worker" },
  ],
});

export { expect };

type Person = { email: string; password: string };

/** A session of somebody's own, to be ended. */
export async function tokenOf(request: APIRequestContext, who: Person = world): Promise<string> {
  const answer = await request.post("/v1/sessions", { data: { email: who.email, password: who.password } });
  expect(answer.status(), await answer.text()).toBeLessThan(300);
  return ((await answer.json()) as { token: string }).token;
}

/** What the API answers to somebody. */
export async function ask<T>(request: APIRequestContext, token: string, method: "get" | "post" | "patch" | "put" | "delete", path: string, data?: unknown): Promise<T> {
  const answer = await request[method](path, { headers: { Authorization: `Bearer ${token}` }, data });
  const text = await answer.text();
  expect(answer.ok(), `${method} ${path}: ${text}`).toBe(true);
  return (text ? JSON.parse(text) : undefined) as T;
}

/** Somebody with an account and money that no other test knows of. */
export async function somebody(request: APIRequestContext, name: string, deposit = "100"): Promise<Person & { account: string; token: string }> {
  const who = { email: `${name.toLowerCase()}@example.test`, password: `a long pass phrase of ${name}` };
  const made = await ask<{ account: { id: string } }>(request, world.operator, "post", "/v1/operator/accounts", { name, ...who });
  if (deposit) await ask(request, world.operator, "post", "/v1/operator/deposits", { account_id: made.account.id, amount: deposit, reference: "test" });
  return { ...who, account: made.account.id, token: await tokenOf(request, who) };
}

/** The code that the cloud mailed to an address. */
export async function mailedCode(request: APIRequestContext, to: string): Promise<string> {
  const answer = await request.get(`${world.control}/code?to=${encodeURIComponent(to)}`);
  expect(answer.status(), `what was mailed to ${to}`).toBe(200);
  return answer.text();
}

/** Opens a page of the console as somebody who is signed in. */
export async function enter(page: Page, path: string, token: string, language = "en") {
  await page.addInitScript(
    ([token, language]) => {
      if (!sessionStorage.getItem("begun")) {
        localStorage.setItem("suanli.token", token!);
        localStorage.setItem("suanli.language", language!);
      }
      sessionStorage.setItem("begun", "1"); // a sign-out stays one
    },
    [token, language],
  );
  await page.goto(`/console${path}`);
}

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** What axe finds wrong with the page, by WCAG 2.2 AA. */
export async function axeFindings(page: Page): Promise<string[]> {
  // evaluate runs beside the page's policy, which lets no other script in. A page that
  // has it has it for as long as it is not loaded again.
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axe);
  return page.evaluate(async () => {
    const { axe } = window as unknown as { axe: { run: (where: unknown, options: unknown) => Promise<{ violations: { id: string; help: string; nodes: { html: string; failureSummary?: string }[] }[] }> } };
    const r = await axe.run(document, { resultTypes: ["violations"], runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] });
    return r.violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => `${n.html.slice(0, 200)} (${n.failureSummary ?? ""})`).join(" | ")}`);
  });
}

/** Is each state of the page without findings, as wide as the window, and kept as a picture? */
export async function look(page: Page, name: string) {
  expect(await axeFindings(page), name).toEqual([]);
  for (const width of world.all ? [360, 1280, 2560] : [360]) {
    await page.setViewportSize({ width, height: width < 500 ? 780 : 1000 });
    await expect.poll(() => page.evaluate(() => document.documentElement.scrollWidth - innerWidth), { message: `${name} at ${width} px` }).toBeLessThanOrEqual(0);
    if (!world.all) continue;
    mkdirSync(world.out, { recursive: true });
    for (const scheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme: scheme });
      await page.waitForTimeout(250); // the menu comes and goes with the width, and colours fade
      await page.screenshot({ path: `${world.out}/${name}-${width}-${scheme}.png` });
    }
  }
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize({ width: 1280, height: 800 });
}

/** What the terminal shows. */
export const screen = (page: Page) => page.locator(".xterm-rows");

/** Types a line into the terminal once it is connected. */
export async function type(page: Page, line: string) {
  await expect(page.locator("[role=status][data-state]")).toHaveAttribute("data-state", "open", { timeout: 30_000 });
  await page.getByRole("textbox", { name: /Terminal|终端/ }).focus();
  await page.keyboard.type(`${line}\n`);
}

/** The console's own texts in a language: what a journey looks for is what a person reads. */
export function textsOf(language: string): (key: string, values?: Record<string, string | number>) => string {
  const folder = new URL(`../src/i18n/${language}/`, import.meta.url);
  const all = Object.assign({}, ...readdirSync(folder).map((f) => JSON.parse(readFileSync(new URL(f, folder), "utf8")) as object)) as Record<string, string>;
  return (key, values = {}) => {
    const text = all[key];
    if (text === undefined) throw new Error(`${language} has no text ${key}`);
    return text.replace(/\{\{(\w+)\}\}/g, (_, name: string) => String(values[name]));
  };
}

export const languages = ["en", "zh-CN"];

export type Lease = { id: string; host_id: string; state: string };

/** Rents for somebody, by the API, on a host that fits, and waits until it runs. */
export async function rent(request: APIRequestContext, token: string, name: string, where = "gpu_count = 1"): Promise<Lease> {
  let offer: { id: string } | undefined;
  // What another test has just given back is offered again once it is clean.
  await expect.poll(async () => (offer = (await ask<{ items: { id: string }[] }>(request, token, "get", `/v1/offers?limit=1&disk_gib=1&where=${encodeURIComponent(where)}`)).items[0]), { message: `an offer with ${where}`, timeout: 120_000 }).toBeTruthy();
  const quote = await ask<{ id: string }>(request, token, "post", "/v1/quotes", { offer_id: offer!.id, image: "cloud://box:1", disk_gib: 1 });
  const lease = await ask<Lease>(request, token, "post", "/v1/leases", { quote_id: quote.id, name });
  await becomes(request, token, lease.id, "running");
  return lease;
}

/** Waits until a lease is in a state. */
export async function becomes(request: APIRequestContext, token: string, lease: string, state: string) {
  await expect.poll(async () => (await ask<Lease>(request, token, "get", `/v1/leases/${lease}`)).state, { timeout: 90_000 }).toBe(state);
}

/** The input of a field, and not the list that it opens. */
export const field = (where: Page | Locator, label: string) => where.getByLabel(label).and(where.locator("input, textarea")).first();

/** Chooses what a text is in, from the list that a field opens. */
export async function choose(page: Page, where: Page | Locator, label: string, option: string) {
  await field(where, label).click();
  await page.getByRole("option").filter({ hasText: option }).first().click();
}
