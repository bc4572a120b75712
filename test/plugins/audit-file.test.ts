import { spawnSync } from 'node:child_process'
import fs, {
  appendFileSync,
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync
} from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { openAuditFile, tryAuditFile } from '../../plugins/audit/audit-file.ts'
import { until } from '../helpers/until.ts'
import { temporaryFolder } from '../helpers/temporary-folder.ts'

/** A file whose next look is taken by the test. */
async function open (path: string) {
  const events: unknown[] = []
  let run = () => {}
  const file = await openAuditFile(path, {
    every: (_ms, look) => {
      run = look
      return () => {
        run = () => {}
      }
    },
    onFault: code => events.push(code),
    onRecovered: lost => events.push(lost)
  })
  /** Looks once, and waits for what `isSeen` says of it. */
  const look = (what: string, isSeen: () => boolean) => {
    run()
    return until(what, isSeen)
  }
  return { ...file, events, look, run: () => run() }
}

const textOf = (path: string) => readFileSync(path, 'utf8')
const isThere = (path: string) => () => fs.existsSync(path)

/** Lets functions of the system fail, until the end of the test. */
function patch (t: Test, functions: object) {
  const before = Object.fromEntries(Object.keys(functions).map(name => [name, fs[name as 'writeSync']]))
  Object.assign(fs, functions)
  syncBuiltinESMExports()
  t.teardown(() => {
    Object.assign(fs, before)
    syncBuiltinESMExports()
  })
}

const fault = (code: string) => Object.assign(new Error(code), { code })
const { writeSync } = fs

/** A disk with room for so many bytes. */
function smallDisk (t: Test) {
  const disk = { room: Infinity, fault: 'ENOSPC' }
  patch(t, {
    writeSync (fd: number, data: string | Buffer) {
      const bytes = Buffer.from(data as string)
      if (disk.room === 0 && bytes.length > 0) throw fault(disk.fault)
      const part = bytes.subarray(0, disk.room)
      disk.room -= part.length
      return writeSync(fd, part)
    }
  })
  return disk
}

t.test('Lines are appended, whole, to what the file holds, and only its owner writes it', async t => {
  const folder = t.testdir({ kept: '{"a":1}\n', cut: '{"a":', empty: '' })
  for (const [name, before] of [['new', ''], ['kept', '{"a":1}\n'], ['cut', '{"a":\n'], ['empty', '']] as const) {
    const own = join(folder, name)
    const file = await open(own)
    file.write({ b: 'ü\n' })
    file.write({ b: 'x'.repeat(40_000) })
    await file.close()
    t.equal(textOf(own), `${before}{"b":"ü\\n"}\n{"b":"${'x'.repeat(40_000)}"}\n`, name)
    t.strictSame(file.state(), { written: 2, lost: 0, fault: undefined })
  }
  t.equal(statSync(join(folder, 'new')).mode & 0o777, 0o640)
})

t.test('The path may lead to another file at any time: renamed, deleted, truncated, or another target of a link', async t => {
  const folder = t.testdir({ a: '', b: '' })
  const path = join(folder, 'audit.log')
  const file = await open(path)
  file.write({ n: 1 })
  renameSync(path, `${path}.1`)
  file.write({ n: 2 })
  await file.look('a new file', isThere(path))
  file.write({ n: 3 })
  truncateSync(path)
  file.write({ n: 4 })
  rmSync(path)
  await file.look('a new file', isThere(path))
  file.write({ n: 5 })
  t.strictSame([textOf(`${path}.1`), textOf(path)], ['{"n":1}\n{"n":2}\n', '{"n":5}\n'])
  rmSync(path)
  symlinkSync('a', path)
  file.reopen()
  file.write({ n: 6 })
  t.equal(textOf(join(folder, 'a')), '{"n":6}\n', 'a link is followed')
  t.strictSame([file.events, file.state()], [[], { written: 6, lost: 0, fault: undefined }])
  await file.close()
})

t.test('SIGHUP opens the file anew although its path leads to it', async t => {
  const path = join(t.testdir({}), 'audit.log')
  const file = await open(path)
  let opened = 0
  const { openSync } = fs
  patch(t, {
    openSync: (...args: Parameters<typeof openSync>) => {
      if (args[1] === 'a') opened++
      return openSync(...args)
    }
  })
  file.reopen()
  t.equal(opened, 1)
  file.write({ n: 1 })
  t.equal(textOf(path), '{"n":1}\n')
  await file.close()
})

t.test('What is no file, or may not be written, is not opened', async t => {
  // Anyone may come to it, wherever the sources are.
  const folder = temporaryFolder(t, 'audit')
  chmodSync(folder, 0o755)
  mkdirSync(join(folder, 'folder'))
  spawnSync('mkfifo', [join(folder, 'pipe')])
  for (const [name, code] of [['folder', 'EISDIR'], ['pipe', 'NOT_A_FILE'], ['no/file', 'ENOENT']] as const) {
    await t.rejects(open(join(folder, name)), { code }, name)
  }

  // What it loads is found while the folder of the packages may be read.
  await (await open(join(folder, 'other'))).close()
  const file = join(folder, 'file')
  writeFileSync(file, '{}\n')
  chmodSync(file, 0o444)
  await asNobody(() => t.rejects(open(file), { code: 'EACCES' }))
  chmodSync(file, 0o222)
  const unreadable = await asNobody(() => open(file))
  unreadable.write({ n: 1 })
  await unreadable.close()
  chmodSync(file, 0o644)
  t.equal(textOf(file), '{}\n{"n":1}\n', 'a file that may be written and not read')
})

/** Without the rights of root, which may do everything. */
async function asNobody<T> (run: () => Promise<T>) {
  const isRoot = process.geteuid!() === 0
  if (isRoot) process.seteuid!(65534)
  try {
    return await run()
  } finally {
    if (isRoot) process.seteuid!(0)
  }
}

t.test('A full device is reported once, each line is counted, and it stays full however often it is tried', async t => {
  const file = await open('/dev/full')
  for (let lost = 1; lost <= 3; lost++) {
    file.write({ n: 1 })
    t.strictSame(file.state(), { written: 0, lost, fault: 'ENOSPC' })
    await file.look('it is opened again', () => true)
    await new Promise(resolve => setTimeout(resolve, 5))
    t.equal(file.state().fault, 'ENOSPC', 'only a line that was written is good')
  }
  t.strictSame(file.events, ['ENOSPC'])
  await file.close()
})

t.test('Each outage is reported with the number of its own lines, once the next line is written', async t => {
  const path = join(t.testdir({}), 'audit.log')
  const disk = smallDisk(t)
  const file = await open(path)
  for (const [fault, lines] of [['ENOSPC', 2], ['EDQUOT', 3]] as const) {
    Object.assign(disk, { room: 0, fault })
    for (let n = 0; n < lines; n++) file.write({ n })
    disk.room = Infinity
    file.reopen()
    t.equal(file.state().fault, fault)
    file.write({ fault })
    t.equal(file.state().fault, undefined)
  }
  t.strictSame([file.events, file.state().lost], [['ENOSPC', 2, 'EDQUOT', 3], 5])
  await file.close()
  t.equal(textOf(path), '{"fault":"ENOSPC"}\n{"fault":"EDQUOT"}\n')
})

t.test('A file that fails is tried again by itself, and a line that a full disk has cut spoils no other', async t => {
  const path = join(t.testdir({}), 'audit.log')
  const disk = smallDisk(t)
  const file = await open(path)
  file.write({ n: 1 })
  disk.room = 3
  file.write({ n: 2 })
  file.write({ n: 3 })
  t.equal(textOf(path), '{"n":1}\n{"n')
  disk.room = Infinity
  await file.look('it is opened again', () => {
    file.write({ n: 4 })
    return file.state().fault === undefined
  })
  t.match(textOf(path), /^\{"n":1\}\n\{"n\n\{"n":4\}\n$/)
  await file.close()
})

t.test('A line that another process is writing when the file is opened is left to it', async t => {
  const path = join(t.testdir({ 'audit.log': '{"n":1' }), 'audit.log')
  const { fstatSync } = fs
  let looks = 0
  patch(t, {
    fstatSync (fd: number) {
      // The first two are of the opening.
      if (++looks === 4) appendFileSync(path, '}\n')
      return fstatSync(fd)
    }
  })
  const file = await open(path)
  file.write({ n: 2 })
  await file.close()
  t.equal(textOf(path), '{"n":1}\n{"n":2}\n')
})

t.test('A file that is closed while its path is looked at stays closed', async t => {
  const path = join(t.testdir({}), 'audit.log')
  const file = await open(path)
  renameSync(path, `${path}.1`)
  file.run()
  await file.close()
  await new Promise(resolve => setTimeout(resolve, 20))
  t.notOk(fs.existsSync(path))
})

t.test('A directory in the place of the file is a fault until it is gone', async t => {
  const path = join(t.testdir({}), 'audit.log')
  const file = await open(path)
  renameSync(path, `${path}.1`)
  mkdirSync(path)
  await file.look('the fault', () => file.state().fault === 'EISDIR')
  file.write({ n: 1 })
  rmSync(path, { recursive: true })
  await file.look('a file', isThere(path))
  file.write({ n: 2 })
  t.strictSame([textOf(path), file.events], ['{"n":2}\n', ['EISDIR', 1]])
  await file.close()
})

t.test('A file is tried without making it or writing to it.', async t => {
  const folder = t.testdir({ cut: 'half a line' })
  tryAuditFile(join(folder, 'cut'))
  t.equal(textOf(join(folder, 'cut')), 'half a line')
  tryAuditFile(join(folder, 'new'))
  t.notOk(isThere(join(folder, 'new'))())
  for (const [path, code] of [['no/new', 'ENOENT'], ['cut/new', 'ENOTDIR'], ['', 'EISDIR']] as const) {
    t.throws(() => tryAuditFile(join(folder, path)), { name: 'SettingsError', message: new RegExp(code) })
  }
})

t.test('A write that would have to wait is a lost line: requests do not wait for the file', async t => {
  const path = join(mkdtempSync(join(tmpdir(), 'holdfast-audit-')), 'audit.log')
  const file = await open(path)
  t.teardown(file.close)
  patch(t, {
    writeSync () {
      throw fault('EAGAIN')
    }
  })
  file.write({ n: 1 })
  t.strictSame(file.state(), { written: 0, lost: 1, fault: 'EAGAIN' })
})

t.test('The path is looked at once at a time', async t => {
  const path = join(mkdtempSync(join(tmpdir(), 'holdfast-audit-')), 'audit.log')
  const file = await open(path)
  t.teardown(file.close)
  renameSync(path, `${path}.1`)
  file.run()
  await file.look('the file is there again', isThere(path))
  file.write({ n: 1 })
  t.strictSame([textOf(`${path}.1`), textOf(path)], ['', '{"n":1}\n'])
})
