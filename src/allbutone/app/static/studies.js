// Studies: which study, which figure of it, which rows of its table.
import { start } from "./page.js";

start();
