import { defineConfig } from "vite";

// One script and one style sheet with fixed names: Python puts them into report.html and serves them.
export default defineConfig({
  build: {
    outDir: "../src/troth/report/page_assets",
    emptyOutDir: true,
    target: "es2022",
    cssCodeSplit: false,
    modulePreload: false,
    rollupOptions: {
      input: "src/main.tsx",
      output: { entryFileNames: "page.js", assetFileNames: "page[extname]", codeSplitting: false, format: "iife" },
    },
  },
});
