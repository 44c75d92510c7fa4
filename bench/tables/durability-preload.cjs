// What flushing to the disk costs: loaded before the daemon (`node --require`), it makes every flush of the process and its
// threads end at once, with nothing flushed. For this measurement alone; the product has no such switch.
const fs = require('node:fs')
const { syncBuiltinESMExports } = require('node:module')

const soon = (_, done) => setImmediate(done, null)
Object.assign(fs, { fsync: soon, fdatasync: soon, fsyncSync: () => {}, fdatasyncSync: () => {} })
syncBuiltinESMExports()
const nothing = async () => {}
globalThis.benchUnflushed = fs.promises.open(__filename, 'r').then(file => {
  Object.assign(Object.getPrototypeOf(file), { sync: nothing, datasync: nothing })
  return file.close()
})
