import { createTheme, Modal, Notification, type MantineColorsTuple } from "@mantine/core";
import i18next from "i18next";

// Shades of the brand's teal; the sixth is what buttons have, and has a contrast of
// at least 4.5 to white.
const teal: MantineColorsTuple = ["#e3fafc", "#c5f0f5", "#99e0e9", "#63cbd9", "#3bb3c4", "#1c96a8", "#0b7285", "#0a6575", "#085663", "#064450"];

export const theme = createTheme({
  primaryColor: "suanli",
  primaryShade: { light: 6, dark: 6 },
  colors: { suanli: teal },
  fontFamily: 'Inter, system-ui, "Segoe UI", Roboto, "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC", sans-serif',
  fontFamilyMonospace: 'ui-monospace, "SF Mono", "Cascadia Mono", Menlo, Consolas, monospace',
  defaultRadius: "md",
  cursorType: "pointer",
  respectReducedMotion: true,
  focusRing: "auto",
  autoContrast: true,
  components: {
    // The page has a banner of its own.
    Notification: Notification.extend({
      defaultProps: {
        // Read when one is shown, in the language of then.
        get closeButtonProps() {
          return { "aria-label": i18next.t("action.close") };
        },
      },
    }),
    Modal: Modal.extend({ defaultProps: { attributes: { header: { role: "presentation" } } } }),
  },
});
