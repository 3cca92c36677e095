// Notes from which sources the shipped files were built, and the license of what is built in; a test compares the hash.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const assets = "../src/troth/report/page_assets";
const files = ["package.json", "package-lock.json", "tsconfig.json", "vite.config.ts", ...walk("src")].sort();
const hash = createHash("sha256");
for (const file of files) hash.update(file).update("\0").update(readFileSync(file)).update("\0");
writeFileSync(join(assets, "source.txt"), `${hash.digest("hex")}\n`);
const license = readFileSync("node_modules/preact/LICENSE", "utf8");
writeFileSync(join(assets, "licenses.txt"), `page.js contains Preact (https://preactjs.com):\n\n${license}`);

function walk(folder) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory() ? walk(`${folder}/${entry.name}`) : [`${folder}/${entry.name}`],
  );
}
