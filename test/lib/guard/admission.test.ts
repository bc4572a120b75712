import t from 'tap'
import { createPrivateNote } from '../../../lib/guard/admission.ts'

t.test('A private note of an object can be changed without effect on others.', async t => {
  const note = createPrivateNote<string>()
  const other = createPrivateNote<string>()
  const owner = {}
  t.equal(note.get(owner), undefined)
  note.set(owner, 'a')
  t.equal(note.get(owner), 'a')
  note.set(owner, 'b')
  t.equal(note.get(owner), 'b')
  t.equal(other.get(owner), undefined)
})
