import "./nonce";
import "@mantine/core/styles.layer.css";
import "@mantine/notifications/styles.layer.css";
import "@mantine/spotlight/styles.layer.css";
import "./app.css";
import { MantineProvider } from "@mantine/core";
import { ModalsRoot } from "./ui/confirm";
import { Notifications } from "@mantine/notifications";
import { QueryCache, QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { ApiError } from "./api/client";
import { startLanguage } from "./i18n";
import { nonce } from "./nonce";
import { makeRouter } from "./router";
import { session } from "./session";
import { theme } from "./theme";

const queries = new QueryClient({
  queryCache: new QueryCache(),
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      // What the server refuses it refuses again; a way that is down may come back.
      retry: (count, error) => !(error instanceof ApiError && error.status < 500) && count < 3,
      refetchOnWindowFocus: true,
    },
    // A write is repeated by the person, with the key it had.
    mutations: { retry: false },
  },
});

const router = makeRouter(queries);

// What was seen by one person is not shown to the next.
session.subscribe(() => {
  if (!session.token()) queries.clear();
  void router.invalidate();
});

// The texts and the page's own program come at the same time.
void Promise.all([startLanguage(), router.load()]).then(() => {
  createRoot(document.getElementById("root")!).render(
    <StrictMode>
      <MantineProvider theme={theme} defaultColorScheme="auto" getStyleNonce={() => nonce}>
        <QueryClientProvider client={queries}>
          <Notifications position="top-right" />
          <ModalsRoot />
          <RouterProvider router={router} />
        </QueryClientProvider>
      </MantineProvider>
    </StrictMode>,
  );
});
