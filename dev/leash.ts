// Loaded into every process that the dev server starts: none outlives it, however it ended.
process.once('disconnect', () => {
  setTimeout(() => process.exit(1), 3000).unref()
  process.kill(process.pid, 'SIGTERM')
})
process.channel?.unref()
