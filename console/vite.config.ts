import { gzipSync } from "node:zlib";
import { readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

const out = "../internal/console/dist";

// The server sends what is compressed here; only small files and the page itself,
// into which it writes a nonce, are kept as they are.
function compress(): Plugin {
  const walk = (dir: string): string[] =>
    readdirSync(dir).flatMap((name) => {
      const path = join(dir, name);
      return statSync(path).isDirectory() ? walk(path) : [path];
    });
  return {
    name: "compress",
    apply: "build",
    closeBundle() {
      for (const path of walk(out)) {
        if (!/\.(js|css|svg)$/.test(path)) continue;
        writeFileSync(path + ".gz", gzipSync(readFileSync(path), { level: 9 }));
        rmSync(path);
      }
    },
  };
}

export default defineConfig({
  base: "/console/",
  plugins: [react(), compress()],
  build: {
    outDir: out,
    emptyOutDir: true,
    assetsInlineLimit: 0,
    target: "es2022",
    chunkSizeWarningLimit: 700,
    // What every page needs comes in few files, each of which costs a round trip: the
    // texts of a language, and the libraries.
    rolldownOptions: {
      output: {
        codeSplitting: {
          groups: [
            { name: "en", test: /src\/i18n\/en\// },
            { name: "zh-CN", test: /src\/i18n\/zh-CN\// },
            { name: "base", test: /node_modules\/(react|react-dom|scheduler|use-sync-external-store|react-i18next|i18next|openapi-fetch|@mantine\/(core|hooks|notifications)|@floating-ui|clsx|@tanstack\/(query-core|react-query|router-core|react-router|history|store|react-store))\//, minShareCount: 3 },
          ],
        },
      },
    },
  },
  server: { proxy: Object.fromEntries(["/v1", "/readyz"].map((path) => [path, { target: process.env.SUANLI_URL ?? "http://127.0.0.1:7080", ws: true }])) },
});
