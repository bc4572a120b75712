/* global indexedDB */
// What a reload must not lose: the key pair, the token, and a login that is under way. IndexedDB stores a CryptoKey
// itself, so its private half never becomes bytes that a script could read.
const DATABASE = 'holdfast-playground'
const STORE = 'session'

function open () {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(DATABASE, 1)
    request.onupgradeneeded = () => request.result.createObjectStore(STORE)
    request.onsuccess = () => resolve(request.result)
    request.onerror = () => reject(request.error)
  })
}

async function run (mode, work) {
  const database = await open()
  try {
    return await new Promise((resolve, reject) => {
      const transaction = database.transaction(STORE, mode)
      const request = work(transaction.objectStore(STORE))
      transaction.oncomplete = () => resolve(request.result)
      transaction.onabort = () => reject(transaction.error)
    })
  } finally {
    database.close()
  }
}

export const read = name => run('readonly', store => store.get(name))
export const write = (name, value) => run('readwrite', store => store.put(value, name))
export const clear = () => run('readwrite', store => store.clear())
