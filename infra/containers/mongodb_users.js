// Creates the user of gateway and billing in an empty MongoDB; the public image runs it once, before it listens.
db.getSiblingDB("admin").createUser({
  user: "headrace",
  pwd: process.env.HEADRACE_MONGODB_PASSWORD,
  roles: [{role: "readWrite", db: "headrace"}],
})
