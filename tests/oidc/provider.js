/**
 * An OpenID Connect provider for tests: `node provider.js PORT CLIENT_ORIGIN`. Accounts are claims by subject, which
 * tests set by PUT /control/accounts/SUBJECT; each start makes new signing keys. Any password is right.
 */
import { generateKeyPairSync } from "node:crypto";
import { createServer } from "node:http";
import Provider from "oidc-provider";

const [port, origin] = process.argv.slice(2);
const accounts = new Map();
let delay = 0;

const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
const provider = new Provider(`http://127.0.0.1:${port}`, {
  jwks: { keys: [{ ...privateKey.export({ format: "jwk" }), kid: `key-${Date.now()}`, use: "sig", alg: "RS256" }] },
  clients: [
    {
      client_id: "headrace",
      client_secret: process.env.CLIENT_SECRET,
      redirect_uris: [`${origin}/api/oidc/callback`],
      post_logout_redirect_uris: [`${origin}/sign-in`],
      grant_types: ["authorization_code", "refresh_token"],
      response_types: ["code"],
    },
  ],
  claims: { openid: ["sub", "groups"], email: ["email", "email_verified"], profile: ["name"] },
  conformIdTokenClaims: process.env.LEAN_ID_TOKEN === "1",
  pkce: { required: () => true },
  cookies: { keys: ["test"] },
  issueRefreshToken: async () => true,
  rotateRefreshToken: true,
  async findAccount(_context, sub) {
    return accounts.has(sub) ? { accountId: sub, claims: async () => ({ sub, ...accounts.get(sub) }) } : undefined;
  },
  async loadExistingGrant(context) {
    const { client, session, result } = context.oidc;
    const known = result?.consent?.grantId ?? session.grantIdFor(client.clientId);
    if (known) return await provider.Grant.find(known);
    const grant = new provider.Grant({ clientId: client.clientId, accountId: session.accountId });
    grant.addOIDCScope("openid email profile");
    await grant.save();
    return grant;
  },
});

async function control(request, response) {
  let text = "";
  for await (const chunk of request) text += chunk;
  const subject = request.url.split("/")[3];
  if (request.url === "/control/delay") delay = Number(text);
  else if (request.method === "DELETE") accounts.delete(subject);
  else accounts.set(subject, JSON.parse(text));
  response.writeHead(204).end();
}

const serve = provider.callback();
createServer((request, response) => {
  if (request.url.startsWith("/control/")) void control(request, response);
  else setTimeout(() => serve(request, response), delay);
}).listen(Number(port), "127.0.0.1", () => console.log("ready"));
