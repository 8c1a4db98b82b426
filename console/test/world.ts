import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { expect, test as base, type APIRequestContext, type Page } from "@playwright/test";

const need = (name: string) => {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set: these tests are run by e2e/console_test.go`);
  return value;
};

export const world = {
  email: need("SUANLI_EMAIL"),
  password: need("SUANLI_PASSWORD"),
  lease: need("SUANLI_LEASE"), // runs all the time
  control: need("SUANLI_CONTROL"), // the address that restarts the server and tells what was mailed
  out: need("SUANLI_OUT"),
  all: process.env.SUANLI_TEST_CONSOLE === "all", // and not only what each change is checked by
};

/** What went wrong in a page without a person being told. */
export type Noise = string[];

/** A test whose pages may complain of nothing, and a token of the renter's. */
export const test = base.extend<{ noise: Noise; token: string }>({
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
  token: async ({ request }, use) => {
    await use(await tokenOf(request));
  },
});

export { expect };

export async function tokenOf(request: APIRequestContext): Promise<string> {
  const answer = await request.post("/v1/sessions", { data: { email: world.email, password: world.password } });
  expect(answer.status(), await answer.text()).toBeLessThan(300);
  return ((await answer.json()) as { token: string }).token;
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
  // evaluate runs beside the page's policy, which lets no other script in.
  await page.evaluate(axe);
  return page.evaluate(async () => {
    const { axe } = window as unknown as { axe: { run: (where: unknown, options: unknown) => Promise<{ violations: { id: string; help: string; nodes: { html: string; failureSummary?: string }[] }[] }> } };
    const r = await axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] });
    return r.violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => `${n.html.slice(0, 200)} (${n.failureSummary ?? ""})`).join(" | ")}`);
  });
}

/** What the terminal shows. */
export const screen = (page: Page) => page.locator(".xterm-rows");

/** Types a line into the terminal once it is connected. */
export async function type(page: Page, line: string) {
  await expect(page.locator("[role=status][data-state]")).toHaveAttribute("data-state", "open", { timeout: 30_000 });
  await page.getByRole("textbox", { name: /Terminal|终端/ }).focus();
  await page.keyboard.type(`${line}\n`);
}
