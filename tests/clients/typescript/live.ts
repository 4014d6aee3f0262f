// What a program does with the generated TypeScript client: `live.ts URL TOKEN`. It is type-checked with it, then run.

import createClient from "openapi-fetch";
import type { components, paths } from "./everwhen.ts";

declare const process: { argv: string[] };

type Problem = components["schemas"]["Problem"];

function check(holds: unknown, shown: unknown): asserts holds {
  if (!holds) throw new Error(`unexpected: ${JSON.stringify(shown)}`);
}

const [, , baseUrl = "", token = ""] = process.argv;
const client = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${token}` } });
const path = { tenant: "acme" };

const made = await client.POST("/v1/tenants/{tenant}/tasks", {
  params: { path },
  body: { name: "from-typescript", priority: 7, tags: ["from-typescript"] },
});
check(made.data?.name === "from-typescript" && made.data.priority === 7 && made.data.revision === 1, made);

const scheduled = await client.POST("/v1/tenants/{tenant}/schedules", {
  params: { path },
  body: { name: "from-typescript", task: "from-typescript", trigger: { kind: "cron", expr: "30 2 * * *" } },
});
check(scheduled.data?.next_at && scheduled.data.trigger.kind === "cron", scheduled);

const tasks = await client.GET("/v1/tenants/{tenant}/tasks", {
  params: { path, query: { filter: "tag:from-typescript" } },
});
check(tasks.data?.items.map((each) => each.name).join() === "from-typescript", tasks);

const schedules = await client.GET("/v1/tenants/{tenant}/schedules", { params: { path } });
check(schedules.data?.items.some((each) => each.name === "from-typescript"), schedules);

const missing = await client.GET("/v1/tenants/{tenant}/tasks/{name}", {
  params: { path: { ...path, name: "nowhere" } },
});
const problem: Problem | undefined = missing.error;
check(missing.response.status === 404 && problem?.status === 404 && problem.code === "task.unknown", missing);

const again = await client.POST("/v1/tenants/{tenant}/tasks", { params: { path }, body: { name: "from-typescript" } });
check(again.data === undefined && again.error?.status === 409, again);
