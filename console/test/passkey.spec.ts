import { axeFindings, enter, expect, somebody, test } from "./world";

// Browsers bind passkeys to host names; the same cloud has one on this machine.
const named = new URL(process.env.SUANLI_URL!);
named.hostname = "localhost";
test.use({ baseURL: named.origin });

test("somebody adds a passkey, signs in by it alone, and lets the password go", { tag: "@more" }, async ({ page, request }) => {
  test.setTimeout(90_000);
  const devices = await page.context().newCDPSession(page);
  await devices.send("WebAuthn.enable");
  await devices.send("WebAuthn.addVirtualAuthenticator", {
    options: { protocol: "ctap2", transport: "internal", hasResidentKey: true, hasUserVerification: true, isUserVerified: true, automaticPresenceSimulation: true },
  });
  // Whose sign-in changes: nobody else signs in as them.
  const who = await somebody(request, "keyholder", "");
  await enter(page, "/account/security", who.token);
  const section = page.locator("section").filter({ has: page.getByRole("heading", { name: "Passkeys" }) });
  await expect(section.getByText("You have none yet.")).toBeVisible();
  await section.getByRole("textbox", { name: "Name" }).fill("the test's device");
  await section.locator('input[autocomplete="current-password"]').fill(who.password);
  await section.getByRole("button", { name: "Add" }).click();
  await expect(section.getByText("the test's device")).toBeVisible();
  expect(await axeFindings(page), "with a passkey").toEqual([]);

  await section.getByRole("button", { name: "Sign in by passkey only" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.locator('input[type="password"]').fill(who.password);
  await dialog.getByRole("button", { name: "Sign in by passkey only" }).click();
  await expect(section.getByText("Passkey only", { exact: true })).toBeVisible();
  const refused = await request.post("/v1/sessions", { data: { email: who.email, password: who.password } });
  expect([refused.status(), ((await refused.json()) as { code: string }).code]).toEqual([401, "passkey_required"]);

  await page.getByRole("button", { name: "You" }).click();
  await page.getByRole("menuitem", { name: "Sign out" }).click();
  await expect(page).toHaveURL(/sign-in/);
  expect(await axeFindings(page), "the sign-in").toEqual([]);
  await page.getByRole("button", { name: "Sign in with a passkey" }).click();
  await expect(page).not.toHaveURL(/sign-in/);
  const begun = await page.evaluate(() => localStorage.getItem("suanli.token"));
  const me = (await (await request.get("/v1/me", { headers: { Authorization: `Bearer ${begun}` } })).json()) as { user: { email: string } };
  expect(me.user.email).toBe(who.email);

  // And back.
  await page.goto("/console/account/security");
  await section.getByRole("button", { name: "Let the password sign in" }).click();
  await dialog.locator('input[type="password"]').fill(who.password);
  await dialog.getByRole("button", { name: "Let the password sign in" }).click();
  await expect(section.getByText("Passkey only", { exact: true })).toHaveCount(0);
  await section.getByRole("button", { name: "Remove the passkey" }).click();
  await dialog.getByRole("button", { name: "Remove" }).click();
  await expect(section.getByText("You have none yet.")).toBeVisible();
});
