// Uses the types that a TypeScript generator makes of the OpenAPI document. It is compiled, not run.
import type { components, operations, paths } from "./remembrancer";

type Put = operations["put_entry"]["requestBody"]["content"]["application/json"];
type Stored = operations["put_entry"]["responses"][201]["content"]["application/json"];
type Search = components["schemas"]["SearchRequest"];
type Refused = operations["search"]["responses"][422]["content"]["application/json"];

export const put: Put = { content: "Ana prefers tea", tags: ["preference"] };
export const search: Search = { query: "What does Ana drink?", mode: "hybrid", limit: 5 };
// @ts-expect-error The words of a mode are a closed set.
export const unknown: Search = { query: "x", mode: "psychic" };
export const code = (refused: Refused): string => refused.error;
export const text = (stored: Stored): string =>
  "entry" in stored ? stored.entry.content : stored.content;
export const path: keyof paths = "/v1/host/remembrancer/memory/{memoryRef}/entries";
