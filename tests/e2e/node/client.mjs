// A peer that knows nothing of us but the .proto files: registers, takes leases, watches telemetry
// and lets go again, over the daemon's Unix socket. Exits with 0 when all of it was as it should be.
//
// usage: node client.mjs PROTO_FOLDER SOCKET
// The daemon has a memory_pool of 150 MiB, of which another client holds 80.
import assert from "node:assert/strict";
import grpc from "@grpc/grpc-js";
import protoLoader from "@grpc/proto-loader";

const [protoFolder, socket] = process.argv.slice(2);
const MIB = 1024 * 1024;
const DEADLINE_MS = 60_000;

const definition = protoLoader.loadSync(
  ["admission_service", "telemetry_service", "error"].map((name) => `stageload/v1/${name}.proto`),
  {
    includeDirs: [protoFolder],
    keepCase: true,
    longs: Number,
    enums: String,
    arrays: true,
    oneofs: true,
  },
);
const { v1 } = grpc.loadPackageDefinition(definition).stageload;
const address = `unix:${socket}`;
const admission = new v1.AdmissionService(address, grpc.credentials.createInsecure());
const telemetry = new v1.TelemetryService(address, grpc.credentials.createInsecure());

setTimeout(() => {
  console.error(`not done after ${DEADLINE_MS / 1000} s`);
  process.exit(1);
}, DEADLINE_MS).unref();

// The messages of a server stream, one `await next()` after another.
class Messages {
  constructor(call) {
    this.call = call;
    this.iterator = call[Symbol.asyncIterator]();
  }
  async next() {
    const { value, done } = await this.iterator.next();
    assert.ok(!done, "the stream ended too early");
    return value;
  }
  async until(condition, what) {
    for (;;) {
      const message = await this.next();
      if (condition(message)) {
        console.log(what);
        return message;
      }
    }
  }
  cancel() {
    this.call.on("error", () => {}); // that it was cancelled
    this.call.cancel();
  }
}

function release(request) {
  return new Promise((resolve, reject) => {
    admission.Release(request, (error, response) => (error ? reject(error) : resolve(response)));
  });
}

// What is in google.rpc's ErrorInfo, read with our own wire-compatible messages.
function reasonOf(error) {
  const decode = (type, bytes) => definition[`stageload.v1.${type}`].deserialize(bytes);
  const status = decode("ErrorStatus", error.metadata.get("grpc-status-details-bin")[0]);
  const info = status.details.find((detail) => detail.type_url.endsWith("/google.rpc.ErrorInfo"));
  return decode("ErrorInfo", info.value).reason;
}

const frames = new Messages(telemetry.WatchTelemetry({}));

const registration = new Messages(
  admission.Register({ name: "node peer", policy: { wait_free_percent: 0 } }),
);
const { registered } = await registration.next();
assert.ok(registered.client_id > 0);
assert.equal(registered.policy.swap_budget_bytes, 8 * 1024 * MIB, "defaults are filled in");
const client = registered.client_id;
console.log("registered");

const mine = (frame) => frame.clients.find((sample) => sample.job_id === client);

const first = new Messages(
  admission.Acquire({ client_id: client, stage: "encode", memory_bytes: 40 * MIB }),
);
let answer = await first.next();
if (answer.event === "waiting") answer = await first.until((m) => m.granted, "waited for the first");
assert.ok(answer.granted.lease_id > 0);
console.log("granted");

// A second one does not fit into the pool beside it.
const second = new Messages(
  admission.Acquire({
    client_id: client,
    stage: "decode",
    memory_bytes: 60 * MIB,
    request_id: "the second",
    start_timeout_ns: 40_000_000_000,
  }),
);
const { waiting } = await second.next();
assert.ok(waiting, "the second lease does not wait");
assert.ok(waiting.blockers.some((b) => b.kind === "BLOCKER_KIND_MEMORY"), "it waits for memory");

await frames.until(({ frame }) => {
  const sample = mine(frame);
  return (
    sample?.pid === process.pid &&
    sample.kind === "JOB_KIND_SESSION" &&
    sample.leases.length === 1 &&
    sample.leases[0].stage === "encode" &&
    frame.waiting.some((request) => request.job_id === client && request.stage === "decode")
  );
}, "seen in the telemetry: one lease held, one waited for");

await release({ client_id: client, lease_id: answer.granted.lease_id });
const { granted } = await second.until((message) => message.granted, "granted after the release");
assert.notEqual(granted.lease_id, answer.granted.lease_id);
await frames.until(({ frame }) => mine(frame)?.leases[0]?.stage === "decode", "seen, too");

await release({ client_id: client, request_id: "the second" });
await assert.rejects(release({ client_id: client, lease_id: granted.lease_id }), (error) => {
  assert.equal(error.code, grpc.status.NOT_FOUND);
  assert.equal(reasonOf(error), "LEASE_NOT_FOUND");
  return true;
});
console.log("released; a second time is LEASE_NOT_FOUND");

registration.cancel();
await frames.until(({ frame }) => !mine(frame), "gone with its registration");
frames.cancel();
admission.close();
telemetry.close();
console.log("done");
