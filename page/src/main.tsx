import { render } from "preact";
import "./style.css";
import { unpacked } from "./read";
import { ReportPage } from "./ReportPage";
import type { Example, Report } from "./types";

const root = document.getElementById("page");
const report = document.getElementById("report-data")?.textContent;
const packed = document.getElementById("report-examples")?.textContent;

if (root && report) {
  root.textContent = ""; // the plain tables for browsers without scripts
  render(<ReportPage report={JSON.parse(report) as Report} load={() => unpacked<Example[][]>(packed ?? "")} />, root);
}
