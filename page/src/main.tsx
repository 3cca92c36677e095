import { render } from "preact";
import "./style.css";
import { unpacked } from "./read";
import { ReportPage } from "./ReportPage";
import { ServePage } from "./ServePage";
import type { Example, Report } from "./types";

const root = document.getElementById("page");
const report = document.getElementById("report-data")?.textContent;
const packed = document.getElementById("report-examples")?.textContent;

const served = document.querySelector<HTMLElement>('#app[data-mode="serve"]');

if (served) {
  served.textContent = ""; // the plain form
  document.querySelector("body > h1")?.remove();
  document.querySelectorAll("head style").forEach((plain) => plain.remove());
  render(<ServePage />, served);
} else if (root && report) {
  root.textContent = ""; // the plain tables for browsers without scripts
  render(<ReportPage home={root.dataset["home"] ?? ""} report={JSON.parse(report) as Report} load={() => unpacked<Example[][]>(packed ?? "")} />, root);
}
