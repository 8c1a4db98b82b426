import { defineConfig } from "@playwright/test";

// e2e/console_test.go starts a cloud, and tells by the environment where it is.
export default defineConfig({
  testDir: ".",
  testMatch: "*.spec.ts",
  grepInvert: process.env.SUANLI_TEST_CONSOLE === "all" ? undefined : /@more/,
  globalSetup: "./apart.mjs",
  outputDir: `${process.env.SUANLI_OUT ?? "../../bin/console-test"}/failures`,
  workers: 1, // on a cloud of one machine, which they share with it
  timeout: 60_000,
  expect: { timeout: 15_000 },
  reporter: [["list"]],
  use: {
    baseURL: process.env.SUANLI_URL,
    viewport: { width: 1280, height: 800 },
    screenshot: "only-on-failure",
    contextOptions: { reducedMotion: "reduce" }, // nothing is looked at while it moves
    launchOptions: { executablePath: `${import.meta.dirname}/browser.sh`, args: ["--no-sandbox", "--disable-dev-shm-usage"] },
  },
});
