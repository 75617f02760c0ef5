// Search asks a Worker, which browsers refuse to a page that is opened from disk. There an iframe
// that runs the same script stands in for it, as the theme expects.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      this.frame.srcdoc = `<script>
        postMessage = message => parent.postMessage(message, "*")
        importScripts = (...urls) => urls.reduce((done, url) => done.then(() => new Promise(
          (loaded, failed) => {
            const script = document.createElement("script")
            script.src = url
            script.onload = loaded
            script.onerror = failed
            document.head.append(script)
          })), Promise.resolve())
      </script><script src="${url}"></script>`
      document.body.append(this.frame)
      this.ready = new Promise(done => this.frame.addEventListener("load", done, {once: true}))
      window.addEventListener("message", event => {
        if (event.source === this.frame.contentWindow)
          this.dispatchEvent(new MessageEvent("message", {data: event.data}))
      })
    }

    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", {data})))
    }

    terminate() {
      this.frame.remove()
    }
  }
}
