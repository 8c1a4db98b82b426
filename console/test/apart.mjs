// What is between a browser in a network of its own and the cloud: a socket in the
// file system, which both networks reach.
import { createConnection, createServer } from "node:net";
import { pipeline } from "node:stream";

const pass = (to) =>
  createServer({ allowHalfOpen: true }, (from) => {
    const on = createConnection({ allowHalfOpen: true, ...to });
    // A way that is cut at one end is cut at the other.
    pipeline(from, on, (e) => e && from.destroy());
    pipeline(on, from, (e) => e && on.destroy());
  });

const listen = (server, where) => new Promise((done, fail) => server.once("error", fail).listen(where, done));

const { SUANLI_SOCKET: path, SUANLI_URL: url } = process.env;
const cloud = { host: new URL(url).hostname, port: Number(new URL(url).port) };

/** Runs beside the tests for as long as they do. */
export default async function beside() {
  const server = pass(cloud);
  await listen(server, { path });
  server.unref();
}

if (process.argv[2] === "within") {
  await listen(pass({ path }), cloud);
  console.log("ready");
}
