import i18next from "i18next";
import { initReactI18next } from "react-i18next";

export const languages = { en: "English", "zh-CN": "简体中文" } as const;
export type Language = keyof typeof languages;

// One file per language and area of the console; each language is loaded when it is
// used.
const files = import.meta.glob<{ default: Record<string, string> }>("./*/*.json");

const key = "suanli.language";

function preferred(): Language {
  const kept = localStorage.getItem(key);
  if (kept && kept in languages) return kept as Language;
  return navigator.languages.some((l) => l.toLowerCase().startsWith("zh")) && !navigator.language.toLowerCase().startsWith("en") ? "zh-CN" : "en";
}

async function load(language: Language) {
  const texts: Record<string, string> = {};
  await Promise.all(
    Object.entries(files)
      .filter(([path]) => path.startsWith(`./${language}/`))
      .map(async ([, file]) => Object.assign(texts, (await file()).default)),
  );
  i18next.addResourceBundle(language, "translation", texts, true, true);
}

export async function setLanguage(language: Language) {
  await load(language);
  localStorage.setItem(key, language);
  await i18next.changeLanguage(language);
  document.documentElement.lang = language;
}

export async function startLanguage() {
  const language = preferred();
  await i18next.use(initReactI18next).init({
    lng: language,
    resources: {},
    keySeparator: false,
    nsSeparator: false,
    returnEmptyString: false,
    interpolation: { escapeValue: false }, // React escapes
  });
  await load(language);
  document.documentElement.lang = language;
  await i18next.changeLanguage(language);
}

export const language = () => i18next.language as Language;
