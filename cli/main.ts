/** `npm run call` and `npm run explain`: the name of the tool comes first, then what it is told. */
const [tool, ...argv] = process.argv.slice(2)
const { main } = await import(`./${tool}.ts`)
await main(argv)
