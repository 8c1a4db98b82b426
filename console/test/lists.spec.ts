import { enter, expect, test, world } from "./world";

const many = 10_000;

// The server's side of long lists is measured by its own benchmarks: here its answers
// are made up from a real one, to see what the browser does with so many.
test(`a list of ${many} rows is read and sorted whole, drawn in part`, { tag: "@more" }, async ({ page, request, token }) => {
  test.setTimeout(400_000);
  const first = (await (await request.get(`/v1/leases/${world.lease}`, { headers: { Authorization: `Bearer ${token}` } })).json()) as Record<string, unknown>;
  await page.route("**/v1/leases?*", (route) => {
    const url = new URL(route.request().url());
    const from = Number(url.searchParams.get("cursor") ?? 0);
    const size = Number(url.searchParams.get("limit"));
    const items = Array.from({ length: Math.min(size, many - from) }, (_, i) => ({ ...first, id: `ls-${from + i}`, name: `row ${String(from + i).padStart(5, "0")}` }));
    return route.fulfill({ json: { items, ...(from + size < many && { next_cursor: String(from + size) }) } });
  });
  await enter(page, "/leases", token);
  const rows = page.getByRole("row");
  await expect(rows.filter({ hasText: "row 00000" })).toBeVisible();
  const begun = Date.now();
  const header = page.getByRole("button", { name: "Name", exact: true });
  await header.click();
  await header.click();
  await expect(rows.filter({ hasText: `row 0${many - 1}` }), "the last row comes first").toBeVisible({ timeout: 180_000 }); // fifty answers, one after the other
  const sorted = Date.now() - begun;
  expect(await rows.count(), "rows that are drawn").toBeLessThan(80);
  console.log(`${many} rows: all read and sorted after ${sorted} ms`);
  // Frames while somebody scrolls through all of it.
  const frames = await page.getByRole("region", { name: "Leases" }).evaluate(
    (box) =>
      new Promise<number[]>((done) => {
        const took: number[] = [];
        let last = performance.now();
        const step = () => {
          const now = performance.now();
          took.push(now - last);
          last = now;
          const before = box.scrollTop;
          box.scrollTop += 4_000;
          if (box.scrollTop === before) done(took.sort((a, b) => a - b));
          else requestAnimationFrame(step);
        };
        requestAnimationFrame(step);
      }),
  );
  await expect(rows.filter({ hasText: "row 00000" })).toBeVisible();
  expect(await rows.count(), "rows that are drawn at the end").toBeLessThan(80);
  const at = (share: number) => frames[Math.min(frames.length - 1, Math.floor(frames.length * share))]!.toFixed(1);
  console.log(`${many} rows: ${frames.length} frames of scrolling, p50 ${at(0.5)} ms, p99 ${at(0.99)} ms`);
});
