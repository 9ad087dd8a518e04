from mobile_app.service.foreground import main

main()
